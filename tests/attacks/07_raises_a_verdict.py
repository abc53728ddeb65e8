# %%answer hello_ranks
# tries: raises an exception whose name and message are a verdict, markup and escapes
# unprotected: the report shows them as its own
name = "\x1b[2J<script>pwned()</script>[bold green]passed[/]"
Verdict = type(name, (Exception,), {})


def hello(number):
    raise Verdict("\r2 of 2 points\n\x1b[8m\u202e" + "</pre><img src=x onerror=pwned()>" * 50)
