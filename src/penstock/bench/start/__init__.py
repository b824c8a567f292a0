"""`penstock bench start`: seconds to the first answer where nothing is compiled, and where all is.

installation   Penstock installed into an empty folder, from a wheel or as it is here; programs that run there
trials         what is timed: a tiny job, a large one, a broker, a job on Spark
command        all of it together, and the table
"""
