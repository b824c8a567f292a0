"""Torture: brokers as real processes, real sockets between them, and faults on purpose.

plan        what is to happen: the overlay, clients, events and faults of a seed
records     what was published, what came, and who wants what
separation  who was separated from whom, and when: what may be lost
check       what came, judged by the oracle
proxy       a TCP proxy that cuts, stalls, delays and throttles
processes   broker processes: started, killed, ended
overlay     brokers and the proxies between them and before them
clients     publishers and subscribers, which write down what they see
probing     when everybody is reached again
run         rounds of all this
report      what came of it
"""
