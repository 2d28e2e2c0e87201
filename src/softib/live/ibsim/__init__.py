"""The server of ibsim's protocol, for stock programs under libumad2sim.so."""
