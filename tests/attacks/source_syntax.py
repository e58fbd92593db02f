"""No Python at all."""

EARNS, STATUS = 0, "error"
FILE = [("def train_step(:\n    <script>alert(1)</script>\n", 1)]
