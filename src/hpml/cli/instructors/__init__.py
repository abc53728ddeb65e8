"""Commands that make the course, and grade: learners do not get them."""
