"""Synonyms of field names of business documents, in English and German.

Each line is a group of phrases with the same meaning. A field whose name, title or alias is in a
group is looked up by all of its phrases.
"""

from llm_ocr.text.normalize import normalized_words

FIELDS = """
invoice number, invoice no, invoice num, invoice nr, invoice id, invoice ref, invoice \
reference, invoice #, inv no, bill number, bill no, invoice, number of invoice, \
rechnungsnummer, rechnungsnr, rechnung nr, rechnung nummer, rechnung no, rechnungs nr, \
rechnungs nummer, re nr, belegnummer, beleg nr, rechnung
invoice date, date of invoice, date of issue, issue date, issued on, issued, date issued, bill \
date, billing date, rechnungsdatum, datum der rechnung, ausstellungsdatum, ausgestellt am, \
belegdatum, rechnung vom
date, datum, tag, dated, vom
invoice date, date, datum
receipt date, purchase date, transaction date, date, datum, kaufdatum, belegdatum
order date, date of order, ordered on, po date, purchase order date, date, bestelldatum, \
datum, bestellt am
due date, date due, due, due on, due by, payment due, payment due date, payment date, pay by, \
payable by, please pay by, fälligkeitsdatum, fälligkeit, fällig, fällig am, fällig bis, \
zahlbar bis, zahlungsziel, zahlungstermin, zu zahlen bis, zahlbar am, zahlung bis
delivery date, ship date, shipping date, deliver by, delivered on, required by, lieferdatum, \
liefertermin, geliefert am, leistungsdatum
order number, order no, order nr, order id, order reference, purchase order number, purchase \
order no, purchase order, po number, po no, po, your order, bestellnummer, bestellnr, bestell \
nr, auftragsnummer, auftrags nr, auftragsnr, bestellung, ihre bestellung, ihr auftrag
customer number, customer no, customer id, account no, client number, client no, kundennummer, \
kundennr, kunden nr, kd nr
seller, supplier, vendor, from, issuer, issued by, sold by, billed by, invoice from, bill \
from, verkäufer, lieferant, absender, von, aussteller, rechnungssteller, auftragnehmer, \
anbieter
buyer, customer, client, to, bill to, billed to, sold to, invoice to, purchaser, recipient, \
invoiced to, invoice address, billing address, kunde, käufer, an, rechnung an, empfänger, \
rechnungsempfänger, rechnungsadresse, rechnungsanschrift, auftraggeber, besteller
ship to, deliver to, delivery address, shipping address, delivered to, lieferadresse, \
lieferanschrift, lieferung an
merchant, store, shop, händler, geschäft, markt
name, company, company name, firma, firmenname
address, street address, postal address, adresse, anschrift
vat id, vat no, vat number, vat reg no, vat registration no, vat registration number, vat reg, \
vat identification number, vat, tax id, tax number, tax no, gst no, gst number, tin, ust id, \
ust idnr, ust id nr, ustid, ustidnr, ust identnummer, umsatzsteuer id, umsatzsteuer idnr, \
umsatzsteuer identifikationsnummer, uid, uid nr, mwst nr, steuernummer, steuer nr, st nr
currency, währung
subtotal, sub total, net, net amount, net total, total net, net value, total excl vat, total \
excluding vat, total before tax, total before vat, amount before tax, total excl tax, total ex \
vat, total excluding tax, total excluding gst, total excl gst, goods total, zwischensumme, \
netto, nettobetrag, nettosumme, netto summe, summe netto, netto gesamt, gesamt netto, \
gesamtbetrag netto, warenwert, betrag netto, netto betrag
vat rate, tax rate, rate of vat, vat, vat at, tax, sales tax, service tax, gst, sst, mwst, mwst \
satz, ust, ust satz, umsatzsteuersatz, mehrwertsteuersatz, umsatzsteuer, mehrwertsteuer, \
steuersatz, plus vat
vat, vat amount, tax, tax amount, total vat, total tax, sales tax, service tax, gst, sst, value \
added tax, vat at, plus vat, mwst, mwst betrag, mehrwertsteuer, mehrwertsteuerbetrag, \
umsatzsteuer, ust, ust betrag, umsatzsteuerbetrag, steuer, steuerbetrag, zzgl mwst, zzgl ust
total, grand total, total amount, invoice total, total due, amount due, balance due, amount \
payable, total payable, total to pay, to pay, total incl vat, total including vat, total inc \
vat, total incl tax, gross total, gross amount, gross, total gross, amount, gesamt, \
gesamtbetrag, gesamtsumme, summe, endbetrag, endsumme, rechnungsbetrag, rechnungssumme, \
brutto, bruttobetrag, bruttosumme, summe brutto, gesamt brutto, brutto gesamt, gesamtbetrag \
brutto, zu zahlen, zu zahlender betrag, zahlbetrag, zahlungsbetrag, betrag
tip, gratuity, trinkgeld
discount, rebate, rabatt, nachlass, skonto
shipping, shipping cost, delivery charge, postage, freight, versand, versandkosten, porto, \
fracht
payment method, paid by, payment, method of payment, zahlungsart, zahlart, bezahlt mit, \
zahlungsmethode
payment terms, terms, zahlungsbedingungen, zahlungskonditionen
receipt number, receipt no, receipt, bon nr, bonnummer, bon, quittung nr, beleg nr
time, uhrzeit, zeit
iban, iban no
bic, swift, swift code, bic swift
bank, bank name, name of bank, kreditinstitut, geldinstitut
account number, account no, account, acct no, kontonummer, konto nr, konto
account holder, account name, holder, name of account holder, kontoinhaber, inhaber
sort code, bankleitzahl, blz
period, statement period, zeitraum, abrechnungszeitraum
period start, from, start date, start, beginning, von
period end, to, end date, end, until, bis
statement date, date of statement, date, auszugsdatum, datum
statement number, statement no, auszug nr, kontoauszug nr, auszugsnummer
opening balance, balance brought forward, previous balance, starting balance, old balance, \
anfangssaldo, alter saldo, alter kontostand, saldovortrag, anfangsbestand
closing balance, balance carried forward, new balance, ending balance, final balance, \
endsaldo, neuer saldo, neuer kontostand, schlusssaldo, endbestand, kontostand
email, e mail, mail, email address, e mail adresse
phone, telephone, tel, phone number, telephone number, mobile, telefon, telefonnummer, tel nr, \
handy
website, web, homepage, url, internet
surname, last name, family name, nachname, name, familienname
given names, given name, first name, first names, forename, forenames, vorname, vornamen
date of birth, birth date, birthdate, born, dob, geburtsdatum, geboren, geboren am, geburtstag
place of birth, birthplace, geburtsort
nationality, citizenship, staatsangehörigkeit, nationalität
sex, gender, geschlecht
document number, document no, card number, card no, id number, id no, ausweisnummer, ausweis \
nr, dokumentennummer, personalausweisnummer
expiry date, date of expiry, expires, expires on, valid until, expiration date, gültig bis, \
ablaufdatum
issuing authority, authority, issued by, ausstellende behörde, behörde
height, größe
eye colour, colour of eyes, eyes, eye color, augenfarbe
notes, note, remarks, comment, comments, bemerkung, bemerkungen, hinweis
"""
COLUMNS = """
description, item, items, article, product, details, text, service, goods, item description, \
product description, particulars, work, title, beschreibung, bezeichnung, artikel, \
artikelbezeichnung, leistung, produkt, ware, position, buchungstext, verwendungszweck, details
quantity, qty, units, unit, count, number, pcs, pieces, hours, amount of units, menge, anzahl, \
stück, stk, einheiten, stunden, std
unit price, price, price each, rate, unit cost, cost, price per unit, each, price unit, \
einzelpreis, preis, stückpreis, e preis, ep, einzel, preis stück, preis je einheit, \
einzelpreis netto
amount, total, line total, total price, line amount, sum, price total, net amount, value, \
extended price, net, betrag, gesamt, gesamtpreis, summe, g preis, gp, gesamtbetrag, wert, \
betrag netto, netto
number, no, pos, position, nr, item no, line
sku, article no, article number, item number, product code, code, item code, artikelnummer, \
artikel nr, art nr
unit, uom, einheit
vat rate, vat, tax, tax rate, mwst, ust
date, booking date, posting date, transaction date, datum, buchungstag, buchungsdatum, buchung
value date, valuta, wertstellung, wert
balance, running balance, saldo, kontostand
debit, withdrawal, withdrawals, paid out, money out, soll, belastung, ausgang
credit, deposit, deposits, paid in, money in, haben, gutschrift, eingang
"""

Phrase = tuple[str, ...]


def _groups(text: str) -> list[tuple[Phrase, ...]]:
    lines = text.strip().splitlines()
    return [
        tuple(dict.fromkeys(filter(None, map(normalized_words, line.split(","))))) for line in lines
    ]


_FIELDS, _COLUMNS = _groups(FIELDS), _groups(COLUMNS)


def synonyms(names: tuple[Phrase, ...], *, column: bool) -> tuple[Phrase, ...]:
    """Other phrases for fields with these names; `column`: headings of columns may be shorter.

    The first phrase of a group is its topic: if it is one of the names, only such groups count.
    """
    groups = (_COLUMNS if column else []) + _FIELDS
    about = [group for group in groups if group[0] in names]
    found = about or [group for group in groups if set(names) & set(group)]
    return tuple(
        dict.fromkeys(phrase for group in found for phrase in group if phrase not in names)
    )
