"""From event to event: boundaries, damage, and where reading goes on behind it."""
