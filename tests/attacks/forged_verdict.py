"""Forges what no probe says: a verdict, points, a status of the grader's own."""

ON, EARNS, STATUS = "stubs", 0, "error"

forge({"status": "pass", "points": 50, "max_points": 50, "text": "all right"})
