"""Patient C's time is not in operations at all, tiny or not. It is in the phase `data`, where plain Python is at work
and PyTorch has nothing to do."""

EXERCISE = "diagnose"
FAILS = ("patients/c",)
READ = "handbook/profiling-and-roofline.md#from-symptom-to-cause"


def patients():
    return {"patient_a": "sync every step", "patient_b": "many tiny ops", "patient_c": "many tiny ops"}
