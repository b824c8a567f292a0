"""The broker: a state machine without input or output. A message in, effects out.

effects    what the runtime is asked to do
needs      what the broker is handed: a matcher
trees      advertisements, and the trees that they span
table      what has been asked for, by whom, on which trees
sessions   numbered messages on a link, and what is done when one is missing
core       the broker itself
"""
