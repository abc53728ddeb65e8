"""Grade what a class hands in: read submissions, judge their answers in sandboxes, write marks.

    paths ──► intake ──► Submission ──► batch ──► Record ──► outputs (marks.csv, JSON, HTML, …)
                                        └ sandbox, one per submission

No content of a submission is imported, executed, unpickled or shown unescaped here.
"""
