"""Patient A's step has long stretches in which no operation runs, as a step that waits for data has. But they are not
in the phase `data`: they are idle, after the backward pass, and each ends with a number that is handed to Python.
Look at the calls of aten::_local_scalar_dense."""

EXERCISE = "diagnose"
FAILS = ("patients/a",)
READ = "handbook/profiling-and-roofline.md#from-symptom-to-cause"


def patients():
    return {"patient_a": "starved loader", "patient_b": "many tiny ops", "patient_c": "starved loader"}
