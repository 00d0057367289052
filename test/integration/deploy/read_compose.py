"""Reads a compose file as the compose specification has it, and checks what it refers to."""

import sys

from compose_spec import PyCompose

with open(sys.argv[1]) as file:
    compose = PyCompose.from_yaml(file.read())
compose.validate()
names = set(compose.service_names())
for name in names:
    for needed in (compose.get_service(name).depends_on or {}):
        if needed not in names:
            sys.exit(f"{name} depends on {needed}, which is no service")
