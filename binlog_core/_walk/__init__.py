"""From event to event: boundaries, damage, and where reading continues after it."""
