"""The steps that ``softib report``, ``check`` and ``route`` share: read a fabric, bring it up, prove its tables, check
it, predict its traffic."""
