"""`penstock bench network`: events through brokers on this machine, beside NATS and RabbitMQ.

workload    subscriptions, events, and which event matches how many subscriptions
party       what a broker and its clients have to offer to be measured
ours        Penstock
nats        NATS, where filters are patterns of subjects
rabbitmq    RabbitMQ, where filters are bindings of a headers exchange
servers     starting brokers as processes, and ending them
alarms      waiting to within some microseconds
pacing      how fast to publish, and what the delays amount to
sides       the processes that publish and subscribe
trial       one party measured from start to end
report      a table, or JSON
command     what the program calls
"""
