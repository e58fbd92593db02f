"""The sandbox in which submissions run.

- sandbox server: the warm Python process inside bubblewrap, which imports torch once and runs no student's code;
- sandbox: the namespaces that the server opens for one submission, and kills with every process in them;
- supervisor: the sandbox's first process, which starts a probe process per request and watches it;
- probe process: loads the submission, runs probes, and is trusted by nobody.
"""
