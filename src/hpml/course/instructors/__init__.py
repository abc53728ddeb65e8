"""What makes and proves the course: learners do not get it."""
