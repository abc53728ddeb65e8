"""The race: seconds to an accuracy, with each improvement of the day a switch.

Settings go in (`switches`), the training script runs with them in processes of its own (`start`,
`attempt`), and the seconds to the accuracy come out, one `Try` (`tries`). Tries are kept in a file
of the learner's, drawn on one chart (`picture`) and, where a class shares a folder, compared on a
board (`board`). `hpml.cli.race_command` is the command.
"""
