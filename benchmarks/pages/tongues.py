"""Sentences in German, French, Spanish and Greek: three parts each, which all go together."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Tongue:
    """A language as sentences are put together in it, and what is above them."""

    name: str
    headings: tuple[str, ...]
    subjects: tuple[str, ...]
    predicates: tuple[str, ...]
    ends: tuple[str, ...]

    def sentence(self, chance: random.Random) -> str:
        parts = (chance.choice(of) for of in (self.subjects, self.predicates, self.ends))
        return " ".join(parts) + "."

    def paragraph(self, chance: random.Random, number: int) -> str:
        said: list[str] = []
        while len(said) < number:
            sentence = self.sentence(chance)
            if sentence not in said:
                said.append(sentence)
        return " ".join(said)


GERMAN = Tongue(
    "German",
    ("Grundsätze der Prüfung", "Über die Brücken", "Maßnahmen für Gemeinden", "Frühe Quellen"),
    (
        "Die größte Brücke der Stadt", "Der Münchner Händler", "Das Bürgeramt in Köln",
        "Eine ältere Übersetzung", "Der Verein für Vogelkunde", "Jede zweite Straßenlaterne",
        "Die Geschäftsführung des Werkes", "Das fünfte Stockwerk", "Der Rückgang der Förderung",
        "Die Universität Tübingen", "Ein Schlüssel aus Messing", "Die Kläranlage am Fluss",
    ),
    (
        "überraschte im Frühjahr", "prüfte nach gründlicher Überlegung", "führte trotz des Regens",
        "veränderte über viele Jahre", "verfügte früher", "ermöglichte außerdem", "störte zunächst",
        "beschäftigte während des Krieges", "lieferte für 1.250 Euro", "begrüßte ausdrücklich",
    ),
    (
        "die zuständigen Behörden", "eine größere Anzahl von Gästen", "den Müller und seine Söhne",
        "die Bewohner der höher gelegenen Häuser", "alle Pläne für das nächste Jahr",
        "drei Fünftel der Einkünfte", "die Öffentlichkeit, und zwar ohne Ausnahme",
        "das Ergebnis, das niemand erwartet hatte", "nur die äußeren Bezirke",
        "die Straße nach Süden", "manchen Gegner des Entwurfs", "die gesamte Belegschaft",
    ),
)  # fmt: skip
FRENCH = Tongue(
    "French",
    ("Les règles générales", "À propos des élèves", "Où est passée la forêt ?", "Méthode et durée"),
    (
        "Le château de la vallée", "La première élève du collège", "Un employé très âgé",
        "L'ancienne bibliothèque", "La société des chemins de fer", "Le maire de Besançon",
        "Une lettre reçue à Noël", "L'hôtel près de la gare", "Le côté français du tunnel",
        "Chaque pièce détachée", "La forêt brûlée", "Ce modèle déjà fragile",
    ),
    (
        "a été décrit comme", "reste, malgré les dégâts,", "fut considéré dès 1848 comme",
        "devint peu à peu", "n'était plus", "sera bientôt", "demeure, à vrai dire,",
        "passait naguère pour",
    ),
    (
        "la preuve d'un succès inespéré", "un événement sans précédent", "le symbole de la région",
        "la cause première des inondations", "un problème à résoudre avant l'été",
        "l'œuvre d'un maître inconnu", "une dépense de 3 500 euros", "le cœur de la cité",
        "un spectacle où chacun trouve sa place", "la plus belle façade du quartier",
        "une idée reçue", "le théâtre des événements de février",
    ),
)  # fmt: skip
SPANISH = Tongue(
    "Spanish",
    ("Según los vecinos", "El año de la sequía", "Cuestiones prácticas", "La compañía en cifras"),
    (
        "El señor Núñez", "La estación de autobuses", "Una pequeña compañía", "El último informe",
        "La investigación sobre el río", "Ningún vecino", "El jardín botánico", "La campaña",
        "El médico de Logroño", "La única línea férrea",
    ),
    (
        "mostró en aquel año", "perdió según los periódicos", "exigía además", "recibió también",
        "dejó atrás", "ofreció por 780 euros", "guardó durante décadas", "cambió después",
    ),
    (
        "una solución más rápida", "las páginas más antiguas", "el corazón de la región",
        "todo lo que había aprendido", "la mitad de su población", "los árboles del camino",
        "una explicación poco común", "el número de teléfono", "su interés por la música",
    ),
)  # fmt: skip
GREEK = Tongue(
    "Greek",
    ("Η ιστορία της πόλης", "Τα νησιά και η θάλασσα", "Αποτελέσματα της έρευνας", "Παλιά βιβλία"),
    (
        "Η παλιά βιβλιοθήκη", "Ο δάσκαλος του χωριού", "Το μεγάλο λιμάνι", "Η μουσική της πόλης",
        "Ένα μικρό καράβι", "Η εφημερίδα της Δευτέρας", "Ο δρόμος προς τη θάλασσα",
        "Το καινούργιο μουσείο", "Η γυναίκα με το κόκκινο καπέλο",
    ),
    (
        "άλλαξε σιγά σιγά", "βρήκε το καλοκαίρι", "έφερε μετά τον πόλεμο", "γνώρισε από κοντά",
        "κράτησε πολλά χρόνια", "έδειξε στους επισκέπτες", "θυμίζει ακόμη",
    ),
    (
        "τους ανθρώπους της γειτονιάς", "τη ζωή στο νησί", "τα παλιά σπίτια", "έναν άλλο κόσμο",
        "την ιστορία της οικογένειας", "το φως του ήλιου", "όλους τους φίλους του",
        "τα τραγούδια της θάλασσας",
    ),
)  # fmt: skip
LATIN_TONGUES = (GERMAN, FRENCH, SPANISH)
