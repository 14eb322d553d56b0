"""All kinds of files that segcertify writes. Kinds that an older segcertify does not have are left out there."""

from tests.campaign.stored_files import STORED
from tests.campaign.subjects import Subject


def written_kinds() -> tuple[Subject, ...]:
    """The subjects of this segcertify: the campaign also runs on older code, for the table's other column."""
    try:
        from tests.campaign.certificate_files import CERTIFICATES
    except ImportError:
        return STORED
    return (*STORED, *CERTIFICATES)


WRITTEN = written_kinds()
