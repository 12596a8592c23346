"""The words that pages are written with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Matter:
    """What a page is about: its things (one, several), its people, and where they are."""

    name: str
    things: tuple[tuple[str, str], ...]
    people: tuple[str, ...]
    where: tuple[str, ...]


def _matter(name: str, things: str, people: str, where: str) -> Matter:
    """Written as lists with commas; a plural that isn't an -s stands behind a slash."""
    pairs = [one.strip().partition("/") for one in things.split(",")]
    return Matter(
        name,
        tuple((one, many or one + "s") for one, _, many in pairs),
        tuple(one.strip() for one in people.split(",")),
        tuple(one.strip() for one in where.split(",")),
    )


MATTERS = (
    _matter(
        "rivers",
        "gauge, weir, embankment, flood, tributary/tributaries, sluice, meadow, delta, current, "
        "ferry/ferries, mill, estuary/estuaries, barge, reservoir, culvert, sandbank, spring, "
        "canal",
        "the lock keepers, hydrologists, the ferrymen, the parish council, fishermen, surveyors",
        "below the lower bridge, along the eastern bank, above the old weir, at the mouth of the "
        "river, under the railway embankment, between the two locks, in the water meadows",
    ),
    _matter(
        "bees",
        "hive, colony/colonies, swarm, queen, comb, drone, forager, orchard, blossom, frame, "
        "smoker, nectar flow, apiary/apiaries, brood nest, parasite, hedge, honey jar, wax sheet",
        "the beekeepers, entomologists, the orchard owners, two inspectors, gardeners, neighbours",
        "on the southern slope, beside the clover field, behind the glasshouses, in a sheltered "
        "corner, within two miles of the wood, under the lime trees, near the boundary hedge",
    ),
    _matter(
        "railways",
        "station, signal, viaduct, locomotive, timetable, carriage, platform, junction, tunnel, "
        "freight train, sleeper, cutting, ticket office, branch line, turntable, level crossing/"
        "level crossings, footbridge, goods shed",
        "the engineers, passengers, station staff, the board of directors, signalmen, historians",
        "on the northern line, at the junction, beyond the second tunnel, between the two termini, "
        "in the marshalling yard, along the coastal section, under the great roof",
    ),
    _matter(
        "medicine",
        "patient, ward, symptom, vaccine, trial, dose, diagnosis/diagnoses, clinic, fever, tissue "
        "sample, antibody/antibodies, placebo, infection, surgeon, recovery/recoveries, nurse, "
        "biopsy/biopsies, risk factor",
        "the physicians, both research groups, general practitioners, the ethics committee, "
        "nurses, epidemiologists",
        "in the control group, on the isolation ward, during the second trial, at the teaching "
        "hospital, among older adults, in rural clinics, outside the study area",
    ),
    _matter(
        "astronomy",
        "telescope, comet, crater, orbit, eclipse, spectrum/spectra, nebula/nebulae, mirror, "
        "asteroid, observatory/observatories, supernova/supernovae, lens/lenses, satellite, "
        "sunspot, catalogue, galaxy/galaxies, pulsar, photographic plate",
        "the astronomers, amateur observers, the night assistants, the survey team, opticians, "
        "mathematicians",
        "near the celestial equator, on the far side of the moon, in the outer belt, above the "
        "atmosphere, in the southern sky, close to the galactic centre, at the focus of the mirror",
    ),
    _matter(
        "textiles",
        "loom, shuttle, dye, spinning wheel, cotton mill, pattern, weaver, thread, ribbon, fleece, "
        "warehouse, spindle, merchant, tapestry/tapestries, blanket, button, velvet curtain, apron",
        "the weavers, mill owners, the guild, dyers, young apprentices, travelling merchants",
        "in the upper valley, on the second floor of the mill, at the autumn fair, behind the "
        "counting house, beside the drying ground, in the merchants' quarter, under glass",
    ),
    _matter(
        "housing",
        "tenant, lease, courtyard, rent, staircase, boiler, balcony/balconies, district, roof "
        "garden, cellar, permit, architect, facade, heat pump, playground, window frame, loan, "
        "planning office",
        "the tenants, planners, the housing association, landlords, the city council, architects",
        "in the inner districts, on the former airfield, behind the market hall, along the ring "
        "road, above the shops, on the upper floors, within walking distance of a school",
    ),
    _matter(
        "birds",
        "warbler, nest, migration, reed bed, heron, ringing station, feather, breeding pair, "
        "lagoon, kestrel, clutch/clutches, plover, flock, hide, sea cliff, marsh/marshes, swallow, "
        "egg collector",
        "the wardens, volunteers, ornithologists, the bird observatory, schoolchildren, farmers",
        "on the outer islands, among the reeds, along the shingle ridge, in the flooded quarry, at "
        "the edge of the salt marsh, over the headland, in the lee of the dunes",
    ),
    _matter(
        "machines",
        "bearing, turbine, gearbox/gearboxes, valve, sensor, workshop, furnace, lathe, piston, "
        "control panel, conveyor, spare part, pump, drawing, test bench/test benches, alloy, "
        "coolant leak, crankshaft",
        "the fitters, plant managers, the maintenance crew, apprentices, two suppliers, inspectors",
        "in hall number four, at full load, on the assembly line, behind the safety fence, under "
        "the crane, next to the compressor, during the night shift",
    ),
    _matter(
        "libraries",
        "manuscript, catalogue, reading room, binding, archive, librarian, index/indexes, scroll, "
        "shelf/shelves, bequest, pamphlet, map, newspaper, reader, seal, marginal note, donor, "
        "printing press/printing presses",
        "the librarians, scholars, the trustees, bookbinders, readers, the town archivist",
        "in the east wing, on the lowest shelf, among the uncatalogued papers, behind the "
        "issue desk, in the vaults, under the copper dome, at the monastery",
    ),
)
ADJECTIVES = (
    "old", "narrow", "abandoned", "famous", "quiet", "expensive", "reliable", "broken", "early",
    "public", "shallow", "northern", "ordinary", "costly", "heavy", "unusual", "temporary",
    "local", "restored", "forgotten", "wooden", "modern", "careful", "bright", "private", "rare",
    "slender", "complete", "damaged", "remarkable", "empty", "independent", "uneven", "useful",
    "larger", "cheaper", "well-known", "hidden", "experimental", "official", "weathered",
    "self-made", "distant", "seasonal", "adjacent", "fragile", "typical", "recent", "vast",
)  # fmt: skip
ADVERBS = (
    "slowly", "rarely", "at first", "in general", "surprisingly", "by and large", "twice a year",
    "without exception", "quietly", "as expected", "in practice", "for the most part", "seldom",
    "almost always", "in other words", "on average", "eventually", "with few exceptions",
    "gradually", "roughly speaking", "officially", "at long last", "beyond doubt",
)  # fmt: skip
TRANSITIVE = (
    "changed", "replaced", "described", "reached", "measured", "improved", "followed", "crossed",
    "kept", "surrounded", "supplied", "outlived", "damaged", "repaired", "lifted", "recorded",
    "questioned", "carried", "explained", "ignored", "compared", "inherited", "exceeded", "joined",
    "weighed", "photographed", "moved", "examined", "protected", "shaped",
)  # fmt: skip
INTRANSITIVE = (
    "disappeared", "failed", "returned", "grew", "vanished", "remained", "improved", "collapsed",
    "survived", "arrived", "changed hands", "fell silent", "lasted", "moved north", "closed",
    "doubled in size", "came back", "went unnoticed", "froze", "stood empty", "made headlines",
)  # fmt: skip
REPORTING = (
    "wrote", "said", "noted", "maintains", "believed", "reported", "admits", "claimed", "recalls",
)  # fmt: skip
CAUSES = (
    "which few had foreseen", "largely because of the weather", "as the accounts show",
    "in spite of the expense", "for reasons that are still disputed", "to everyone's relief",
    "though the evidence is thin", "with one exception", "and not only there",
    "as far as anyone can tell", "at a cost that was never published", "if the diary is right",
    "whatever the newspapers said", "and has done so ever since", "after a long dispute",
)  # fmt: skip
TIMES = (
    "in the spring of that year", "towards the end of the century", "during the war",
    "for almost thirty years", "overnight", "before the first frost", "at the end of the season",
    "every other Thursday", "in less than a decade", "shortly after midnight", "last winter",
    "within eighteen months", "on three occasions", "once the money was spent", "by the 1870s",
    "between two harvests", "since the reform", "in the middle of August",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
UNITS = (
    ("metre", "metres"), ("kilogram", "kg"), ("tonne", "tonnes"), ("mile", "miles"),
    ("litre", "litres"), ("hectare", "hectares"), ("foot", "feet"),
)  # fmt: skip
PLACES = (
    "Ashcombe", "Ludlow", "Trieste", "Port Ellen", "Marburg", "Skellefteå", "Córdoba", "Whitby",
    "Lübeck", "Saint-Malo", "Kraków", "Aberdeen", "Novara", "Pécs", "Harrogate", "Zürich",
    "Bergen", "Évora", "Delft", "Inverness", "Málaga", "Tartu", "Quimper", "Oldenburg",
)  # fmt: skip
FIRST_NAMES = (
    "Margaret", "Thomas", "Ingrid", "José", "Eleanor", "Jürgen", "Chloé", "Samuel", "Agnieszka",
    "Robert", "Beatrice", "Anton", "Hélène", "Walter", "Søren", "Catherine", "Philip", "Zoë",
)  # fmt: skip
FAMILY_NAMES = (
    "Whitfield", "Okafor", "Müller", "Lindqvist", "Harding", "García", "Novák", "Pemberton",
    "O'Connell", "Schäfer", "Dubois", "Ferreira", "Blackwood", "Yamada", "Kowalski", "Ainsworth",
)  # fmt: skip
