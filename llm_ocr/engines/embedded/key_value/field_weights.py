"""Weights of key-value extraction, learned by `benchmarks/field_weights.py`."""

# CRF: weights of a line's features for being of the issuer's name.
NAME: dict[str, float] = {
    "at the left": -0.26, "below a title": -0.33, "bias": -0.52, "capitals": 1.64,
    "centered": 0.12, "colon": -0.97, "comma": -1.06, "comma at the end": -0.57,
    "contact and phone": -0.94, "contact word": -0.94, "date": -0.52, "depth on page": -0.93,
    "digits": -1.35, "first": 0.19, "fourth to sixth": -0.49, "greeting": -3.1,
    "has digits": -0.67, "height": 4.43, "house number": 1.54, "in brackets": -1.59,
    "in the sender line": 2.72, "label": -0.73, "largest": -0.34, "legal form": 2.39,
    "many words": 0.17, "narrow": -0.48, "one word": -2.06, "only title": -2.44,
    "phone number": -1.32, "postal code": -0.4, "registration alone": -2.6,
    "second or third": -0.07, "seventh or later": -0.52, "street": -0.09,
    "street and number": -0.92, "tax number": 0.65, "title": -2.33, "trade": 0.36, "url": -1.23,
}  # fmt: skip
# CRF: for being of the issuer's address.
ADDRESS: dict[str, float] = {
    "at the left": -0.84, "below a title": -0.66, "bias": -0.3, "capitals": 1.01,
    "centered": -0.04, "colon": -2.46, "comma": 1.63, "comma at the end": -0.65,
    "contact and phone": -1.92, "contact word": -1.58, "date": -0.58, "depth on page": -1.33,
    "digits": -1.18, "fourth to sixth": 0.25, "greeting": -3.06, "has digits": 1.3,
    "height": -1.56, "house number": 0.8, "in brackets": -2.69, "label": -1.41, "largest": -0.79,
    "legal form": -2.35, "many words": -1.34, "narrow": -0.26, "one word": 1.08,
    "only title": -2.54, "phone number": -2.3, "postal code": 2.11, "registration alone": -2.14,
    "second or third": 0.83, "seventh or later": -0.43, "street": 0.7, "street and number": 1.38,
    "tax number": -2.96, "title": -2.49, "trade": -2.5, "url": -2.94,
}  # fmt: skip
# CRF: weights of moving from one state to the next line's.
TRANSITIONS: dict[str, dict[str, float]] = {
    "before > before": {
        "bias": 0.25, ">another column": 0.63, ">comma above": 0.93, ">digits": -0.16,
        ">few words": 0.07, ">gap": -0.21, ">number above": -0.98, ">other height": 0.38,
        ">postal code above": 0.56, ">wide gap": 0.23,
    },
    "before > name": {
        "bias": -0.02, ">another column": 2.52, ">comma above": -2.21, ">digits": -0.45,
        ">few words": -0.9, ">gap": -0.79, ">number above": 0.04, ">other height": 1.61,
        ">postal code above": -0.24, ">wide gap": -0.68,
    },
    "name > name": {
        "bias": -0.55, ">another column": -0.93, ">comma above": 3.15, ">digits": -0.63,
        ">few words": 0.22, ">gap": -0.52, ">number above": -1.14, ">other height": -2.55,
        ">postal code above": -0.87, ">wide gap": -1.0,
    },
    "name > between": {
        "bias": -0.34, ">another column": -2.1, ">comma above": -1.55, ">digits": -0.53,
        ">few words": 0.42, ">gap": -0.96, ">number above": 0.58, ">other height": 0.92,
        ">postal code above": 0.85, ">wide gap": -0.16,
    },
    "name > address": {
        "bias": -0.64, ">another column": 0.76, ">comma above": -0.19, ">digits": 1.81,
        ">few words": -0.86, ">gap": -0.24, ">number above": 1.5, ">other height": 1.93,
        ">postal code above": 0.64, ">wide gap": -1.11,
    },
    "name > after": {
        "bias": 1.67, ">another column": 2.52, ">comma above": -0.09, ">digits": 0.03,
        ">few words": -0.64, ">gap": 1.0, ">number above": 1.58, ">other height": 0.85,
        ">postal code above": 0.3, ">wide gap": 0.17,
    },
    "between > between": {
        "bias": 0.33, ">another column": -2.69, ">comma above": -0.07, ">digits": -0.43,
        ">few words": 0.21, ">gap": -0.08, ">number above": -0.2, ">other height": -1.13,
        ">postal code above": -0.2, ">wide gap": 0.06,
    },
    "between > address": {
        "bias": -0.29, ">another column": 2.24, ">comma above": -0.99, ">digits": 2.29,
        ">few words": -0.99, ">gap": -0.24, ">number above": 1.44, ">other height": -2.05,
        ">postal code above": 0.5, ">wide gap": -0.71,
    },
    "address > address": {
        "bias": -0.13, ">another column": -1.66, ">comma above": 0.18, ">digits": -0.15,
        ">few words": 0.75, ">gap": -0.04, ">number above": -0.92, ">other height": -1.07,
        ">postal code above": 1.71, ">wide gap": -0.94,
    },
    "address > after": {
        "bias": -1.11, ">another column": -0.51, ">comma above": -1.95, ">digits": 1.0,
        ">few words": -1.75, ">gap": 0.37, ">number above": 0.54, ">other height": 0.81,
        ">postal code above": 1.94, ">wide gap": -0.02,
    },
    "after > after": {
        "bias": 0.1, ">another column": 0.72, ">comma above": 0.85, ">digits": 0.05,
        ">few words": -0.09, ">gap": 0.32, ">number above": 0.49, ">other height": 0.62,
        ">postal code above": -2.06, ">wide gap": 0.67,
    },
}  # fmt: skip
# Softmax over the dates of a page.
DATE: dict[str, float] = {
    "alone": 0.52, "compact": 0.03, "date word": 0.93, "depth": 1.82, "first": 0.87,
    "latest": -1.59, "only": 1.31, "other date": -2.81, "other label": -0.64, "time": 0.87,
    "none": -2.06,
}  # fmt: skip
# Softmax over the amounts of a page.
TOTAL: dict[str, float] = {
    "cash": 0.48, "change": 0.94, "count": 0.05, "final": 0.14, "first total": 1.21,
    "height": -1.24, "labeled": 1.72, "largest": 1.36, "largest unpaid": 1.7, "last total": 1.29,
    "more often": 1.15, "net and tax": 2.24, "only cash": -1.39, "only change": 0.65,
    "only count": -1.17, "only rounding": 0.9, "only subtotal": -0.53, "only tax": -0.67,
    "paid": 0.48, "paid and change": 2.59, "rounded": 0.81, "rounding": 0.94, "subtotal": 0.32,
    "tax": 0.22, "total": 0.75, "total and tax": 1.41, "twice": 0.32, "unlabeled": -1.76,
    "none": 1.85,
}  # fmt: skip
# Logistic regression: the log-odds that a value is the one that is meant.
EVIDENCE: dict[str, float] = {
    "bare amount": 0.42, "behind": 0.4, "below in a row": 0.49, "beside": 1.94, "bias": 1.08,
    "chosen date": 0.5, "chosen total": 1.19, "date": 0.25, "date below": 0.38,
    "is address": -0.97, "is date": 0.98, "is name": -0.81, "is total": 0.89,
    "labeled party": 4.04, "letterhead address": 1.2, "letterhead name": 0.8, "listed": 0.77,
    "number": -0.13, "number below": -2.96, "own wording": 0.54, "recipient": 0.94,
    "rivals": -0.13, "short wording": 1.88, "sign": 3.93, "text": 2.54, "text below": -1.75,
}  # fmt: skip
# Logistic regression: the log-odds that all characters of a line are right.
READING: dict[str, float] = {
    "bias": -0.53, "letters": 0.91, "log of expected errors": -0.71,
}  # fmt: skip
