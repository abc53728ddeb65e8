"""What a machine, with a GPU above all, shows: measured in minutes, and kept in small files.

    ./hpml record --out recorded                    # all of it
    ./hpml record --out recorded --only roofline    # one measurement
    PYTHONPATH=src python -m hpml.record            # from a source tree, with torch and numpy alone

`plan` lists the measurements, `command` runs each in a process of its own, `kept` is what stays of
it, and what lectures read. On a CPU the list is the same, and its work smaller.
"""
