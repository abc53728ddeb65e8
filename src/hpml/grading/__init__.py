"""Grade what a class hands in: read submissions, judge their answers in sandboxes, write marks.

    paths ──► intake ──► Submission ──► batch ──► Record ──► outputs (marks.csv, JSON, HTML, …)
                                        └ sandbox, one per submission

Nothing here imports, executes, unpickles or shows unescaped anything that a submission holds.
"""
