# %%answer hello_ranks
# tries: prints a passed test run, a JSON verdict and what clears the screen and sets its title
# unprotected: a grader that reads verdicts from stdout gives the points; the terminal shows what
# the answer wants
import json
import os
import sys


def hello(number):
    print("hello_ranks: 2 of 2 points: every claim holds")
    print(json.dumps({"status": "passed", "earned": 2, "score": 100.0, "tests": []}))
    print("=== 2 passed in 0.01s ===")
    print("\x1b[2J\x1b[H\x1b]0;PASS\x07\x1b[32m2 of 2\x1b[0m \x9b2J \u202e")
    print("<script>document.title = 'pwned'</script> ]]> &#0; [bold green]passed[/]")
    sys.stderr.write("OK\n")
    os.write(1, b"\xff\xfe\x00 not text\n")
    return number
