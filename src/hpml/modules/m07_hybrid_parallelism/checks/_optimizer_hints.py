"""Exercise zero1's hints."""

HINTS = {
    "start": "An optimizer makes the states of those parameters that it is given. Which ones "
    "do you give to this rank's, and how do the other ranks get the values that it computes?",
    "unchanged": "This rank's optimizer has parameters in its groups. Does step() call its "
    "step(), and are they the parameters that you were given, not copies?",
    "not_sent": "After the update a parameter's new value is on one rank. Everybody needs it "
    "before the next forward pass: its owner broadcasts it, and every rank knows who that is.",
    "parity": "Look at the first step: the same class, the same keyword arguments, the same "
    "gradients. Each parameter is updated once, in place.",
    "options": "The keyword arguments after optimizer_class are the optimizer's own: hand all "
    "of them on.",
    "groups": "A param group is a dict: `params`, and options that replace the optimizer's "
    "for these parameters. A rank's optimizer needs the same groups, with fewer parameters.",
    "written": "A scheduler writes into optimizer.param_groups[0]['lr'], others write other "
    "options. Those are your groups. What reads them before the next step, and which options?",
    "iterable": "A generator can be gone through once: what has been taken from it, by next() "
    "or by a loop, is gone. How do you look at the first one and keep it?",
    "late_options": "What a group does not have of itself is what optimizer_class was given: "
    "`defaults`. What was written into another group since then is that group's alone.",
    "param_groups": "Schedulers and logs read optimizer.param_groups, on every rank: all "
    "parameters are there, not only this rank's, and all options, the defaults too.",
    "zero_grad": "Gradients are on all ranks, also those of parameters that another rank owns. "
    "zero_grad() sets all of them to None.",
    "late_group": "A group that is added later has parameters that need an owner, a place in "
    "that owner's optimizer, and a broadcast in every step from then on. The owner may be a "
    "rank that had no parameter until then.",
    "unused": "p.grad is None says that this step has nothing for p: a plain optimizer skips "
    "it, and neither momentum nor weight decay touches it. A gradient of zeros is not that.",
    "moments": "A moment is the memory of all steps so far, and it is on the rank that made "
    "them. Which rank updates a parameter is decided once, when the parameter comes.",
    "replicated": "A rank whose optimizer knows a parameter makes states for it. Only the "
    "owner's optimizer may know it.",
    "balance": "Parameters differ in size: an embedding beside a bias; and an element of "
    "float64 has twice the bytes of one of float32. Give the next parameter to the rank that "
    "has the fewest bytes so far. All ranks come to the same owners, because they count alike.",
    "memory": "What else holds something as large as the parameters: a second optimizer, "
    "copies to send from, states that are made for everybody's parameters?",
    "averaged": "Gradients are the mean over the ranks already when step() is called. What "
    "does an all_reduce of them change? Only new values of parameters have to travel.",
    "wire": "A value that one rank has and all need is a broadcast. An all_reduce sends twice "
    "as much, and adds up what is there once.",
    "gather": "Each rank's optimizer has states for its own parameters. gather_object brings "
    "them to rank 0; the other ranks return None.",
    "indices": "In a plain optimizer's state_dict() a parameter is a number: its place in "
    "all groups, one after the other. This rank's optimizer counts its own parameters only. "
    "`optimizer.state` has them by parameter.",
    "no_state": "A plain optimizer makes states when it first updates a parameter. One that "
    "never had a gradient has no entry in `state`.",
    "steps": "The states are those of the steps that were taken, each under its parameter's "
    "number. Which numbers does this rank's optimizer know, and are its states gathered after "
    "the last step?",
    "state_groups": "Rank 0's optimizer has a part of the parameters in its groups. The whole "
    "state_dict has all of them there, as numbers, and the options that count now.",
    "mismatch": "All ranks walk through the same groups in the same order, and each parameter "
    "has one owner, the same on all ranks. Who is the source of the call that does not match?",
    "hang": "A broadcast is for everybody: the owner of a parameter sends it, all others "
    "receive it. A rank that owns nothing takes part as well.",
    "raised": "Start from the exception. A rank that owns no parameter of a group still has "
    "the group, with an empty list. torch's optimizers refuse an empty list in place of "
    "groups, optimizer_class([]), and accept a group without parameters.",
}
