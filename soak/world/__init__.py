"""A simulated world: servers, lines and a clock in one process, decided by a seed; nothing sleeps.

make world WORLD_SECONDS=60        # new seeds
make world SEED=1234               # one history again
"""
