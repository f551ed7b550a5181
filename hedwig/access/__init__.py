"""Access: who somebody is, and what they may do. Rules are on topics and on beginnings of their names."""

from hedwig.access.actions import Action
from hedwig.access.certificate_names import CertificateNames
from hedwig.access.limits import Limit, parse_rule
from hedwig.access.patterns import Pattern
from hedwig.access.principals import EVERYBODY, Principal
from hedwig.access.rights import Rights, RuleBook, TopicRights
from hedwig.access.rules import Rule

__all__ = [
    "EVERYBODY",
    "Action",
    "CertificateNames",
    "Limit",
    "Pattern",
    "Principal",
    "Rights",
    "Rule",
    "RuleBook",
    "TopicRights",
    "parse_rule",
]
