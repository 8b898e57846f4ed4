"""What each verb can be asked for, once: records of options."""
