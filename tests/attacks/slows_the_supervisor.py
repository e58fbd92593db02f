"""Makes the supervisor slow, or removes its limits, so that it is late and the sandbox is to blame."""

import os
import resource

ON, EARNS = "reference", 50

attempt("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("setpriority of all", lambda: os.setpriority(os.PRIO_USER, 1000, 19))
attempt("sched_setaffinity", lambda: os.sched_setaffinity(1, {0}))
attempt("sched_setscheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt("prlimit", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)))
attempt("prlimit of memory", lambda: resource.prlimit(1, resource.RLIMIT_AS, (2**20, 2**20)))
attempt("prlimit of time", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)))
attempt("ioprio_set", lambda: system_call(251, 1, 1, 3 << 13))
attempt("oom_score_adj", lambda: open("/proc/1/oom_score_adj", "w").write("1000"))
attempt("setsid", os.setsid)
