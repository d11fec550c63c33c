"""The network: links, relays and the faults that befall them (§5, §5A). The front door is `model.LinkNetwork`."""
