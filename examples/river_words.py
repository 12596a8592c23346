"""The words and numbers of the example report. The river, the trust and the data are invented."""

# A style of river_report.STYLES and the words; or "inset" and the name of a figure or table.
Piece = tuple[str, str]

TITLE = "The River Arle at Fenwick Bridge"
SUBTITLE = "Yearly report of the monitoring station for 2024"

# Month; discharge in m³/s: mean, highest, lowest; rainfall in mm; mean water temperature in °C.
MONTHS: list[tuple[str, float, float, float, int, float]] = [
    ("January", 9.8, 31.4, 5.1, 94, 4.6),
    ("February", 11.2, 42.7, 5.9, 108, 5.8),
    ("March", 8.4, 22.0, 4.8, 71, 7.2),
    ("April", 6.1, 14.3, 3.9, 58, 9.6),
    ("May", 4.7, 10.8, 3.0, 62, 12.9),
    ("June", 3.2, 6.4, 2.1, 41, 15.7),
    ("July", 2.6, 7.9, 1.7, 55, 17.8),
    ("August", 2.1, 4.2, 1.4, 38, 18.1),
    ("September", 3.4, 18.6, 1.6, 89, 15.0),
    ("October", 6.6, 27.3, 2.8, 102, 11.4),
    ("November", 8.9, 33.8, 4.4, 97, 7.9),
    ("December", 10.3, 38.1, 5.6, 111, 5.2),
]

CAPTIONS = {
    "photo": "Figure 1: The staff gauge below Fenwick Bridge, seen from the left bank in late "
    "spring.",
    "chart": "Figure 2: Monthly rainfall at Fenwick Mill (bars) and mean discharge at Fenwick "
    "Bridge (line) in 2024.",
    "table": "Table 1: Discharge, rainfall and water temperature by month. The year’s row gives "
    "the mean, the extremes and the total.",
    "quality": "Table 2: Laboratory results for the samples taken in 2024. Oxygen is judged by its "
    "5th percentile.",
}

PAGE_1: list[Piece] = [
    ("h1", "1 Summary"),
    (
        "text",
        "The station at Fenwick Bridge recorded the River Arle on every day of 2024. Rainfall "
        "came to 926 mm, about a tenth more than the average of the last thirty years, and it "
        "fell mostly at the two ends of the year. Mean discharge was 6.4 m³/s. The highest flow, "
        "42.7 m³/s, passed the bridge on 17 February and flooded the meadows downstream for "
        "three days without reaching any houses.",
    ),
    (
        "text",
        "Summer was dry but not extreme. Discharge fell to 1.4 m³/s on 29 August, and the water "
        "reached 21.3 °C in the same week. Oxygen stayed above the level at which fish suffer. "
        "Nitrate met its target for the second year running; phosphate again did not, and the "
        "reasons are discussed in section 4.",
    ),
    ("h1", "2 The station"),
    ("h2", "2.1 Site and catchment"),
    (
        "text",
        "Fenwick Bridge lies 23 km below the source of the Arle. The catchment above it covers "
        "412 km² of chalk hills and clay vale, most of it under grass and cereals. About 38,000 "
        "people live there, half of them in the town of Marlow Green, whose treatment works "
        "returns its water to the river 6 km upstream of the bridge.",
    ),
    (
        "text",
        "The chalk stores winter rain and releases it slowly, so that the river rarely runs "
        "low before July. The clay does the opposite: after a wet night the brooks of the vale "
        "rise within four hours, and the gauge follows within nine.",
    ),
    ("inset", "photo"),
    ("h2", "2.2 Instruments"),
    (
        "text",
        "Water level is measured every fifteen minutes by a radar sensor under the middle arch "
        "and checked each week against the staff gauge on the left bank (figure 1). The two "
        "differed by more than 10 mm on only one of 52 visits, after drifting weed had caught on "
        "the gauge.",
    ),
    (
        "text",
        "Discharge is computed from level by a rating curve, which rests on 61 gaugings made "
        "with a current profiler since 2015. Seven of them are from this year. The February "
        "flood was gauged near its peak, which extends the curve by almost a metre and lowers "
        "the uncertainty of high flows from about 15 to 8 per cent.",
    ),
    (
        "text",
        "Rain is caught by a tipping bucket at Fenwick Mill, 1.2 km to the west, and a storage "
        "gauge beside it that is read by hand on the first of each month. The bucket recorded "
        "four per cent less than the storage gauge over the year, as such instruments do in "
        "heavy showers, and its totals have been raised accordingly.",
    ),
    (
        "text",
        "A sonde in the channel measures temperature, conductivity and dissolved oxygen every "
        "hour. It is cleaned on each visit and exchanged for a freshly calibrated one every "
        "eight weeks. Between 3 and 9 June a flat battery interrupted the series. The gap was "
        "closed with values from the station at Harrow Weir, 5 km downstream, whose records "
        "agree with ours to within 0.4 °C in that month of other years.",
    ),
    (
        "text",
        "All instruments report by mobile radio every hour, and every fifteen minutes once the "
        "river rises above 2.6 m on the gauge. The readings appear on the trust’s web page within "
        "ten minutes. A logger in the hut keeps them for ninety days as well, so that a broken "
        "link costs no data; in 2024 the link failed four times, for eleven hours in all.",
    ),
]

PAGE_2: list[Piece] = [
    ("h2", "2.3 Checks"),
    (
        "text",
        "Every value passes three checks before it is stored: it must lie within the range of the "
        "instrument, it must not jump by more than the river can, and it must agree with the "
        "stations above and below. Values that fail are kept and marked, never deleted. In 2024 "
        "this was true of 0.3 per cent of levels and of 2.1 per cent of oxygen readings, most of "
        "them taken while the sonde was out of the "
        "water. A second person reviews the marks at the end of each month, and the reasons are "
        "published together with the data.",
    ),
    ("h1", "3 The year in numbers"),
    ("h2", "3.1 Winter floods"),
    (
        "text",
        "January and February brought 202 mm of rain on ground that was already wet. The river "
        "stood above 5 m³/s throughout, and rose above 30 m³/s three times. From March onwards "
        "rain was slight and flow receded evenly, carried by the chalk.",
    ),
    (
        "text",
        "The flood of 17 February was the fourth highest since the station opened in 1979. It "
        "followed 41 mm of rain in two days. The first warning went out eleven hours before the "
        "peak, and the forecast level was 9 cm too high, which is as good as the model has done.",
    ),
    ("h2", "3.2 Low water and recovery"),
    (
        "text",
        "The lowest month was August, with a mean of 2.1 m³/s. A thunderstorm on 22 September "
        "ended the low water: 34 mm fell in five hours, and discharge rose from 1.6 to 18.6 m³/s "
        "by the next morning. The last quarter was wet, and December was the wettest month of "
        "the year with 111 mm.",
    ),
    (
        "text",
        "Groundwater in the borehole at Hanger Down, which feeds the springs of the upper Arle, "
        "fell until 3 October and then rose by 4.8 m before the end of the year. The springs were "
        "running again by the middle of November, three weeks earlier than usual.",
    ),
    ("inset", "columns_end"),
    ("inset", "chart"),
    (
        "text",
        "Over the year, about 53 per cent of the rain left the catchment by the river; the rest "
        "evaporated or went to groundwater. The share is slightly above that of 2023, because "
        "more of the rain fell in months when little evaporates. Table 1 gives the figures month "
        "by month.",
    ),
    ("inset", "table"),
]

PAGE_3: list[Piece] = [
    ("h1", "4 Water quality"),
    (
        "text",
        "Samples were taken every second Thursday and analysed by the county laboratory. Two "
        "bottles for suspended solids broke on the way and were not replaced. Table 2 shows the "
        "four determinands for which the river has a target.",
    ),
    ("inset", "quality"),
    ("h2", "4.1 Phosphate"),
    (
        "text",
        "The target for phosphate is a yearly 95th percentile of 0.12 mg/l. Seven of the 26 "
        "samples were above 0.10 mg/l, and all of these were taken between June and September, "
        "when treated water makes up a fifth of the flow. In winter, when soil washed from "
        "fields would be the likelier source, values were half as high. The treatment works is "
        "therefore the first place to look. Its operator plans a new settling stage for 2026.",
    ),
    ("h2", "4.2 Oxygen and temperature"),
    (
        "text",
        "Dissolved oxygen fell below 75 per cent of saturation on nine nights in August, always "
        "shortly before dawn, and recovered by mid-morning. No dead fish were reported. Shade is "
        "scarce between the works and the bridge; the 1,400 alders and willows that volunteers "
        "planted there in November should help from about 2030.",
    ),
    ("h1", "5 Work planned for 2025"),
    (
        "text",
        "1. Two gaugings below 2 m³/s, where the rating curve rests on three points only.<br/>"
        "2. A second battery for the sonde, with an alarm by text message.<br/>"
        "3. Weekly phosphate samples above and below the treatment works from June to "
        "September.",
    ),
    (
        "note",
        "Data: all series are open and may be had from the trust in 15-minute, daily and monthly "
        "form. Values for November and December are provisional until the next yearly check.",
    ),
]
