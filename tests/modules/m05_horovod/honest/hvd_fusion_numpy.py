# %%answer hvd_fusion
# unusual: numpy for the seconds, a decoder that takes one event at a time, a dict of stacks
import json

import numpy as np


def events(text):
    decoder, at = json.JSONDecoder(), text.find("[") + 1
    while True:
        while at < len(text) and text[at] in ", \n\t\r":
            at += 1
        try:
            event, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield event


def covered(spans):
    if not len(spans):
        return np.float64(0)
    spans = np.array(sorted(spans), dtype=np.int64)
    ends = np.maximum.accumulate(spans[:, 1])
    starts = np.maximum(spans[1:, 0], ends[:-1])
    return (np.append(ends[0] - spans[0, 0], np.maximum(ends[1:] - starts, 0))).sum() / 1e6


def read_timeline(text):
    names, stacks, waits, moves = {}, {}, [], []
    for event in events(text):
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"]] = event.get("args", {}).get("name", "?")
        elif event["ph"] == "B":
            stacks.setdefault(event["pid"], []).append(event)
        elif event["ph"] == "E":
            begin = stacks[event["pid"]].pop()
            span = (begin["ts"], event["ts"])
            if begin["name"].startswith("NEGOTIATE_"):
                waits.append(span)
            elif begin["name"].split("_")[0] in {"GLOO", "MPI", "NCCL"}:
                moves.append((*span, names[event["pid"]]))
    groups, until = [], -1
    for start, end, name in sorted(moves):
        if start < until:
            groups[-1] += (np.str_(name),)
        else:
            groups += [(name,)]
            until = end
    return {
        "collectives": groups,
        "negotiated": covered(waits),
        "transferred": covered([move[:2] for move in moves]),
    }
