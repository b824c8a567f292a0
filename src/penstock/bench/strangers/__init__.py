"""What clients that send expensive filters cost the others: round trips with and without them, in turn.

- `crowd`: ordinary clients in one process, which publish to themselves, and now and then subscribe.
- `attack`: processes of clients that send the worst filters known, as fast as they are answered.
- `command`: rounds without and with the attack, and what they show.
"""
