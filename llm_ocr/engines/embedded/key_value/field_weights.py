"""Weights of key-value extraction, learned by `benchmarks/field_weights.py`."""

# CRF: weights of a line's features for being of the issuer's name.
NAME: dict[str, float] = {
    "at the left": -0.34, "below a title": -0.27, "bias": -0.51, "capitals": 1.29,
    "centered": 0.43, "colon": -0.86, "comma": -0.88, "comma at the end": -0.42,
    "contact and phone": -0.75, "contact word": -0.8, "date": -0.55, "depth on page": -0.86,
    "digits": -1.11, "first": -0.09, "fourth to sixth": -0.32, "greeting": -2.58,
    "has digits": -0.44, "height": 3.55, "house number": 0.92, "in brackets": -1.52,
    "in the sender line": 3.33, "label": -0.72, "largest": 0.18, "legal form": 2.19,
    "many words": -0.2, "narrow": -0.62, "one word": -0.76, "only title": -2.04,
    "phone number": -1.08, "postal code": -0.42, "registration alone": -2.13,
    "second or third": -0.13, "seventh or later": -0.51, "street": -0.24,
    "street and number": -0.83, "tax number": 0.42, "title": -1.84, "trade": 0.24, "url": -1.27,
}  # fmt: skip
# CRF: for being of the issuer's address.
ADDRESS: dict[str, float] = {
    "at the left": -0.79, "below a title": -0.74, "bias": -0.28, "capitals": 1.04,
    "centered": 0.11, "colon": -1.66, "comma": 1.48, "comma at the end": -0.19,
    "contact and phone": -0.24, "contact word": 0.21, "date": -0.95, "depth on page": -0.96,
    "digits": -0.92, "fourth to sixth": 0.36, "greeting": -3.06, "has digits": 1.3,
    "height": -1.68, "house number": 0.47, "in brackets": -2.58, "label": -2.44, "largest": -1.29,
    "legal form": -2.28, "many words": -1.55, "narrow": -0.41, "one word": 0.93,
    "only title": -2.84, "phone number": -2.22, "postal code": 1.95, "registration alone": -2.07,
    "second or third": 0.78, "seventh or later": -0.43, "street": 0.38, "street and number": 1.22,
    "tax number": -2.2, "title": -1.97, "trade": -2.16, "url": -3.07,
}  # fmt: skip
# CRF: weights of moving from one state to the next line's.
TRANSITIONS: dict[str, dict[str, float]] = {
    "before > before": {
        "bias": 0.19, ">another column": 0.76, ">comma above": 0.08, ">digits": -0.22,
        ">few words": 0.17, ">gap": -0.1, ">number above": -0.86, ">other height": -0.01,
        ">postal code above": 0.32, ">wide gap": 0.33,
    },
    "before > name": {
        "bias": 0.29, ">another column": 2.54, ">comma above": -1.31, ">digits": -0.18,
        ">few words": -1.25, ">gap": -0.79, ">number above": 0.22, ">other height": 2.52,
        ">postal code above": 1.01, ">wide gap": -1.01,
    },
    "name > name": {
        "bias": -0.54, ">another column": -0.86, ">comma above": 2.21, ">digits": -0.58,
        ">few words": 0.33, ">gap": -0.5, ">number above": -0.92, ">other height": -2.73,
        ">postal code above": -0.6, ">wide gap": -0.61,
    },
    "name > between": {
        "bias": -0.31, ">another column": -2.11, ">comma above": -2.07, ">digits": 0.11,
        ">few words": 1.0, ">gap": -0.74, ">number above": 1.22, ">other height": 0.39,
        ">postal code above": 0.48, ">wide gap": -0.67,
    },
    "name > address": {
        "bias": -0.27, ">another column": -1.25, ">comma above": -0.29, ">digits": 2.01,
        ">few words": -0.73, ">gap": -0.33, ">number above": 1.93, ">other height": 1.46,
        ">postal code above": 0.13, ">wide gap": -1.43,
    },
    "name > after": {
        "bias": 1.42, ">another column": 1.79, ">comma above": -0.95, ">digits": 0.2,
        ">few words": 0.02, ">gap": 0.93, ">number above": 1.2, ">other height": 2.24,
        ">postal code above": 0.01, ">wide gap": -0.88,
    },
    "between > between": {
        "bias": 0.3, ">another column": -2.03, ">comma above": 1.29, ">digits": -0.54,
        ">few words": 0.17, ">gap": -0.12, ">number above": 0.02, ">other height": -0.62,
        ">postal code above": -0.35, ">wide gap": -0.28,
    },
    "between > address": {
        "bias": -0.28, ">another column": 2.2, ">comma above": -1.13, ">digits": 2.25,
        ">few words": -1.19, ">gap": -0.69, ">number above": 1.46, ">other height": -0.41,
        ">postal code above": -1.63, ">wide gap": -0.78,
    },
    "address > address": {
        "bias": -0.18, ">another column": -1.36, ">comma above": 0.39, ">digits": -0.14,
        ">few words": 0.59, ">gap": 0.18, ">number above": -1.43, ">other height": -0.77,
        ">postal code above": 1.41, ">wide gap": -0.9,
    },
    "address > after": {
        "bias": -0.7, ">another column": -0.91, ">comma above": -2.41, ">digits": 0.75,
        ">few words": -1.74, ">gap": 0.2, ">number above": -0.12, ">other height": 0.5,
        ">postal code above": 1.9, ">wide gap": 0.46,
    },
    "after > after": {
        "bias": 0.09, ">another column": 0.73, ">comma above": 0.55, ">digits": 0.05,
        ">few words": -0.12, ">gap": 0.26, ">number above": 0.42, ">other height": 0.48,
        ">postal code above": -1.89, ">wide gap": 0.65,
    },
}  # fmt: skip
# Softmax over the dates of a page.
DATE: dict[str, float] = {
    "alone": 0.36, "compact": 1.13, "date word": 0.53, "depth": 1.35, "first": 0.57,
    "latest": -0.92, "only": 1.14, "other date": -3.64, "other label": -0.7, "own label": 0.14,
    "time": 1.31, "none": -1.32,
}  # fmt: skip
# Softmax over the amounts of a page.
TOTAL: dict[str, float] = {
    "cash": 0.98, "change": 0.69, "final": 0.49, "first total": 0.91, "height": -1.4,
    "labeled": 1.53, "largest": 1.01, "largest unpaid": 1.79, "last total": 1.24,
    "more often": 1.83, "net and tax": 2.38, "only cash": -1.8, "only change": -0.05,
    "only count": -1.56, "only subtotal": -1.96, "only tax": -0.61, "paid": 0.98,
    "paid and change": 2.5, "rounded": 0.62, "rounded twin": 2.97, "rounding": 0.09,
    "subtotal": -0.33, "tax": -0.26, "total": 0.67, "total and tax": 2.14, "twice": 0.23,
    "unlabeled": -1.2, "unrounded twin": -2.58, "none": 2.26,
}  # fmt: skip
# Logistic regression: the log-odds that a value is the one that is meant.
EVIDENCE: dict[str, float] = {
    "bare amount": -1.31, "behind": 1.27, "below in a row": 0.87, "beside": 1.48, "bias": 1.48,
    "chosen date": 0.45, "chosen total": 1.05, "date": 0.85, "date below": 0.35,
    "is address": -0.8, "is date": 0.83, "is name": -1.24, "is total": -0.25,
    "labeled party": 1.83, "letterhead address": 1.22, "letterhead name": 1.19, "listed": 2.76,
    "number": 0.43, "number below": -1.96, "own wording": -0.33, "recipient": 0.94, "rivals": -0.3,
    "short wording": 1.54, "sign": 2.43, "text": 1.49, "text below": -1.34,
}  # fmt: skip
# Logistic regression: the log-odds that all characters of a line are right.
READING: dict[str, float] = {
    "bias": -0.53, "letters": 0.84, "log of expected errors": -0.72,
}  # fmt: skip
