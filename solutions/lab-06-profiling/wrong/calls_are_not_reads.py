"""Patient B makes thousands of calls, but Python reads no number from any of them: count aten::_local_scalar_dense. Its
calls are short, most of them far below 0.02 ms of self time, and there are about as many as there are tokens,
several times over."""

EXERCISE = "diagnose"
FAILS = ("patients/b",)
READ = "handbook/profiling-and-roofline.md#from-symptom-to-cause"


def patients():
    return {"patient_a": "sync every step", "patient_b": "sync every step", "patient_c": "starved loader"}
