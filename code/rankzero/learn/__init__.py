"""What starters and notebooks import: everything that is not the lesson."""

from rankzero.learn.machine.lazy_dynamo import keep_compiler_out

keep_compiler_out()
