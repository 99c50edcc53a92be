"""Puts every tool of an installation behind a server, as a process of its own: `python -m tests.nhi.load.serving`."""


def main() -> None:
    import django

    django.setup()
    # After the line above, which loads the models that these read and write.
    from nhi.choices import Kind
    from nhi.models import Identity
    from tests.mcp.behind import stand_behind_a_server

    stand_behind_a_server(Identity.objects.filter(kind=Kind.TOOL))


if __name__ == "__main__":
    main()
