"""The devices probe: each accelerator that this process sees, for `dlcontainer validate`.

Prints one JSON object; see prove_devices.py. Python >= 3.6.
"""

import argparse
import json

import prove_devices

SCHEMA = "dlcontainer/devices/1"


def run(arguments, stamps):
    """Prove the devices that this process sees, and print what was seen."""
    parser = argparse.ArgumentParser(prog="probe devices")
    parser.add_argument("--framework", choices=prove_devices.FRAMEWORKS)
    framework = parser.parse_args(arguments).framework or prove_devices.present()
    body = prove_devices.proved(framework) if framework else prove_devices.untried()
    print(json.dumps(dict(body, schema=SCHEMA), sort_keys=True))
