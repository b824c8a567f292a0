"""Pipelines as TOML files: what `penstock pipeline` runs.

config         the file, checked: every mistake in it, before anything is started
sources        where events come from, as a DataFrame
subscriptions  the table that they are routed by
sinks          where they go, and what each of them promises
sessions       a session that keeps to itself, and how to stop what it does
run            a batch or a stream, from the file to the summary
progress       what is told meanwhile, and in the end
"""
