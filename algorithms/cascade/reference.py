"""The reference evaluator of cascade.json, in plain Python: copy it, it imports nothing but json.

    policy = json.load(open("cascade.json"))
    answer, confidence, model, asked = decide(policy, ask)

``ask(model)`` calls a model and returns ``(answer, confidence)``, or for ``cumulative_mean`` a list
of probabilities in the order of ``policy["classes"]``; None if the call failed. A model is asked
only if those before it were not sure enough. ``answer`` is None if the policy abstains or every
call failed. ``conformance.json`` has cases; ``python cascade.py`` in the same folder runs them.
"""

import json

KEYS = "models", "accept", "refuse"


def decide(policy, ask):
    """Return the answer, its confidence, the model that gave it, and all models asked."""
    heard, asked = [], []
    answer = confidence = model = None
    for name, accept, refuse in zip(*(policy[key] for key in KEYS), strict=True):
        asked.append(name)
        reply = ask(name)
        if reply is None:  # the call failed: on with the next model
            continue
        heard.append(reply)
        model = name
        answer, confidence = stated(policy, heard)
        if accept == "-inf" or confidence >= float(accept):
            return answer, confidence, model, asked
        if refuse is not None and not confidence >= float(refuse):
            return None, confidence, None, asked
    if policy["abstains"] or model is None:
        return None, confidence, None, asked
    return answer, confidence, model, asked  # later models failed: the last answer there was


def stated(policy, heard):
    """Return the answer after some calls, and the confidence in it."""
    if policy["answer"] == "cumulative_mean":
        count = len(heard)
        mean = [sum(column) / count for column in zip(*heard, strict=True)]
        best = max(range(len(mean)), key=mean.__getitem__)  # of equal means the first
        return policy["classes"][best], mean[best]
    if policy["answer"] == "vote":
        said = [answer for answer, _ in heard]
        best = max(said, key=said.count)  # of equally frequent answers the first
        return best, sum(sure for answer, sure in heard if answer == best) / len(heard)
    return heard[-1]


def check(policy, cases):
    """Raise AssertionError if a case comes out otherwise than expected."""
    for number, case in enumerate(cases):
        answer, _, model, asked = decide(policy, case["calls"].get)
        result = {"answer": answer, "model": model, "asked": asked}
        assert result == case["expected"], f"case {number}: found {result}, expected {case}"


if __name__ == "__main__":
    with open("cascade.json") as policy, open("conformance.json") as cases:
        check(json.load(policy), json.load(cases))
    print("all cases agree")
