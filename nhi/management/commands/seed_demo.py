"""`manage.py seed_demo`: add people, identities and grants for a demo. A second run changes nothing."""

from typing import Any

from django.core.management import BaseCommand

from nhi import demo


class Command(BaseCommand):
    help = "Seed the demo. Passwords are printed when the people are made, and stored nowhere."

    def handle(self, *_args: Any, **_options: Any) -> None:
        passwords = demo.seed()
        if passwords:
            self.stdout.write("Demo people, with passwords that are shown this once:")
            for username, (description, password) in passwords.items():
                self.stdout.write(f"  {username:<6} {password}   {description}")
