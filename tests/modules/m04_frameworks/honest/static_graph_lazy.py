# %%answer static_graph
# unusual: numpy; frees only when the peak would rise, or at the end; the tree on a stack; both
# functions print, and write into the graph that they were given
import numpy as np


def plan(graph):
    names = [node["name"] for node in graph["nodes"]]
    number = {name: row for row, name in enumerate(names)}
    rows = len(names)
    reads = np.zeros((rows, rows), bool)
    for row, node in enumerate(graph["nodes"]):
        for source in node["inputs"]:
            if source in number:
                reads[row, number[source]] = True
    wanted = np.zeros(rows, bool)
    wanted[[number[name] for name in graph["outputs"]]] = True
    for row in range(rows - 1, -1, -1):
        if wanted[row]:
            wanted |= reads[row]
    outputs = np.zeros(rows, bool)
    outputs[[number[name] for name in graph["outputs"]]] = True
    nbytes = np.array([node["bytes"] for node in graph["nodes"]])
    for row in range(rows - 1, -1, -1):  # to read a view is to read its first input
        if graph["nodes"][row].pop("view"):
            base = number.get(graph["nodes"][row]["inputs"][0])
            if base is not None:
                reads[:, base] |= reads[:, row]
                outputs[base] |= outputs[row]
            outputs[row] = True  # never freed
    reads[~wanted] = False
    last = np.where(outputs, rows, np.where(reads.any(0), rows - 1 - reads[::-1].argmax(0), rows))
    alive_at = [
        (np.arange(rows) <= row) & (last >= row) & wanted for row in range(rows) if wanted[row]
    ]
    peak = max(nbytes[alive].sum() for alive in alive_at)
    print(f"least peak: {peak} bytes")
    program, alive = [], set()
    for row in np.flatnonzero(wanted):
        over = sorted((one for one in alive if last[one] < row), key=lambda one: -nbytes[one])
        while nbytes[[*alive, row]].sum() > peak:
            alive.remove(over[0])
            program.append(("free", names[over.pop(0)]))
        program.append(("run", names[row]))
        alive.add(row)
    return program + [("free", names[one]) for one in alive if last[one] < rows]


def order(graph):
    nodes = {node.pop("name"): node for node in graph["nodes"]}
    known = {}
    stack = list(graph["outputs"])
    while stack:
        name = stack[-1]
        inputs = [one for one in nodes[name]["inputs"] if one in nodes]
        missing = [one for one in inputs if one not in known]
        if missing:
            stack += missing
            continue
        inputs.sort(key=lambda one: nodes[one]["bytes"] - known[one][0])
        before = np.cumsum([0] + [nodes[one]["bytes"] for one in inputs])
        peaks = [known[one][0] + low for one, low in zip(inputs, before, strict=False)]
        names = [each for one in inputs for each in known[one][1]]
        known[name] = max([*peaks, before[-1] + nodes[name]["bytes"]]), [*names, name]
        stack.pop()
    return np.array(known[graph["outputs"][0]][1]).tolist()
