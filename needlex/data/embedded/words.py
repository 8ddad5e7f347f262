"""The words that fill open slots, written by hand; one pool a name, entries separated by ` | ` or a new line."""

from __future__ import annotations

AREAS = """kitchen | living room | bedroom | bathroom | dining room | garage | hallway | office | basement | attic
guest room | guest bathroom | master bedroom | nursery | laundry room | pantry | study | library | sunroom | den
playroom | home theater | gym | workshop | mudroom | entryway | foyer | conservatory | porch | patio | backyard
front yard | garden | balcony | terrace | deck | greenhouse | shed | wine cellar | game room | music room
craft room | utility room | boiler room | storage room | cloakroom | powder room | ensuite | walk-in closet
kids room | teen room | family room | great room | lounge | breakfast nook | kitchenette | bar | sauna | pool house
pool area | driveway | carport | courtyard | stairwell | landing | corridor | lobby | reading room | studio
sewing room | media room | server room | dressing room | main bathroom | small bedroom | corner office | back porch
front hall | back hall | barn | stable | tool shed | summer house | tv room | art studio | meeting room | classroom
waiting room | reception | break room | prayer room | spa | rooftop | loft | drawing room | ballroom | scullery"""

FLOORS = """ground | first | second | third | top | upper | lower | main | bottom | fourth | middle | fifth | sixth
seventh | eighth | ninth | tenth | mezzanine | entrance | garden | street | penthouse | conference | sales"""

DEVICES = """desk lamp | floor lamp | bedside lamp | reading lamp | table lamp | lava lamp | salt lamp | piano lamp
chandelier | crystal chandelier | wall sconce | night lamp | lantern | paper lantern | spotlight | track spotlight
vanity lamp | arc lamp | pendant lamp | picture lamp | torchiere | tiffany lamp | globe lamp | study lamp | star lamp
moon lamp | aquarium lamp | plant lamp | grow lamp | closet lamp | mirror lamp | shelf lamp | standing lamp
heat lamp | workbench lamp | sewing lamp | bunk bed lamp | tripod lamp | banker lamp | lamp post | candelabra
christmas tree | garland | lightbox | ring lamp | neon sign | led strip | light strip | tv backlight | disco ball
coffee machine | coffee maker | espresso machine | kettle | toaster | rice cooker | slow cooker | air fryer | microwave
dishwasher | washing machine | washer | tumble dryer | dryer | oven | stove | hob | freezer | fridge | wine cooler
water heater | boiler | immersion heater | electric blanket | towel warmer | towel rail | iron | sewing machine
printer | 3d printer | scanner | router | modem | access point | computer | laptop charger | phone charger | monitor
projector | television | tv | smart tv | soundbar | speaker | smart speaker | record player | turntable | radio
amplifier | subwoofer | game console | media center | streaming stick | baby monitor | doorbell | intercom | alarm panel
air purifier | ventilator | range hood | air circulator | extractor | dehumidifier | humidifier | oil diffuser
space heater | infrared heater | patio heater | radiator | heat pump | air conditioner | thermostat | fireplace
electric fireplace | pool pump | hot tub | jacuzzi | fountain | pond pump | sprinkler | irrigation pump | fish tank
aquarium | terrarium | pet feeder | cat feeder | dog fountain | bird bath heater | bug zapper | robot arm | treadmill
exercise bike | massage chair | hair dryer | curling iron | blender | food processor | juicer | bread maker
ice maker | popcorn machine | waffle iron | sous vide | smoker | electric grill | hot plate | bottle warmer
steam cleaner | power strip | smart plug | garage plug | extension cord | car charger | ev charger | bike charger
battery charger | solar inverter | backup generator | sump pump | well pump | compressor | table saw | drill press
welding station | kiln | pottery wheel | telescope mount | photo frame | digital frame | wall clock | music box"""

LAMPS = """desk lamp | floor lamp | bedside lamp | reading lamp | table lamp | lava lamp | salt lamp | piano lamp
chandelier | crystal chandelier | wall sconce | night lamp | lantern | paper lantern | spotlight | track spotlight
vanity lamp | arc lamp | pendant lamp | picture lamp | torchiere | tiffany lamp | globe lamp | study lamp | star lamp
moon lamp | aquarium lamp | plant lamp | grow lamp | closet lamp | mirror lamp | shelf lamp | standing lamp
heat lamp | workbench lamp | sewing lamp | bunk bed lamp | tripod lamp | banker lamp | lamp post | candelabra
ring lamp | neon sign | led strip | light strip | tv backlight | lightbox | corner lamp | stair lamp | dresser lamp"""

FANS = """air purifier | ventilator | range hood | air circulator | extractor | tower blower | cooker hood | blower
box ventilator | window ventilator | ceiling ventilator | desk ventilator | cooling tower | air scrubber
whole house ventilator | hepa filter | tornado | breeze machine | wind machine | turbine"""

PLAYERS = """television | tv | smart tv | soundbar | speaker | smart speaker | record player | radio | stereo
boombox | home cinema | projector | chromecast | apple tv | media center | jukebox
bluetooth speaker | big screen | surround system | hifi | gramophone | receiver | tablet | roku | sonos | echo dot
nest hub | old radio | portable speaker | shower speaker | party speaker | bookshelf speakers | studio monitors"""

CLIMATES = """thermostat | air conditioner | heat pump | radiator | boiler | floor heating | wine cooler | heater
space heater | ac unit | furnace | central heating | mini split | towel radiator | pool heater | hvac | main thermostat
upstairs thermostat | downstairs thermostat | guest thermostat | nursery thermostat | panel heater | chiller
incubator | greenhouse heater | water heater | portable ac"""

COVERS = """skylight | projector screen | canopy | hatch | pergola | louvers | rooflight | drapes | roof vent
pool cover | sun sail | portcullis | drawbridge | attic hatch | cellar hatch | roller screen | sun screen
bug screen | velux | partition | room divider | cat flap | dog flap | trapdoor | pet door flap | sunroof | marquee"""

VALVES = """water valve | gas valve | main valve | sprinkler valve | radiator valve | garden valve | irrigation valve
bypass valve | shutoff valve | drip line valve | pool valve | hot water valve | cold water valve | fountain valve
drain valve | cistern valve | boiler valve | lawn valve | greenhouse valve | washing machine valve"""

LOCKS = """front door | back door | side door | garage door | patio door | cellar door | main gate | garden gate
office door | balcony door | shed door | basement door | pool gate | main entrance | driveway gate | kitchen door
french doors | sliding door | safe | gun cabinet | medicine cabinet | liquor cabinet | bike locker | mailbox
laundry door | nursery door | guest room door | apartment door | lobby door | storage unit | server cabinet
wine cabinet | tool chest | filing cabinet | porch door | screen door | service entrance | rear gate | barn door"""

VACUUMS = """vacuum | robot vacuum | roomba | rosie | dusty | mop robot | dust bunny | hoover | sweeper | robby
sir sucks a lot | dust devil | mister clean | sparky | deebot | roborock | wall-e | cinderella | alfred | jeeves | crumbs"""

MOWERS = """lawnbot | grasshopper | automower | mowbert | shaun | robomow | front lawn robot | back lawn robot
goat | green machine | edward | weed eater | husqvarna | grazer | hopper | clippy | sheep | billy"""

SCENES = """movie night | good morning | good night | dinner | romantic | party | relax | reading | bedtime | sunrise
sunset | focus | cozy | christmas | halloween | game night | cooking | cleaning | yoga | meditation | away | vacation
wake up | date night | homework | work | brunch | spa | disco | tropical | ocean | forest | candlelight | winter
summer evening | birthday | concert | arctic aurora | calm | energize | thunderstorm | campfire | storytime | siesta"""

SCRIPTS = """morning routine | bedtime routine | water the plants | leaving home | arriving home | panic
feed the cat | guest mode | night check | coffee time | garage check | laundry reminder | pool cleaning
weekend wake up | holiday lighting | heat the bath | vacation mode | movie setup | dog walk | lock up | school run
backup photos | restart router | air out the house | storm warning | goodnight | party starter | energy saver"""

BUTTONS = """doorbell | panic | restart router | garage opener | elevator | self test | identify | reset filter
feeder | gate opener | snooze | refill | reboot | wake computer | restart hub | sync | update firmware | ring
find remote | unlock car | start pump | flush | silence | brew coffee | start engine | dispense | clean filter"""

SENSORS = """water meter | power meter | gas meter | rain gauge | wind gauge | solar panel | battery | air quality sensor
humidity sensor | motion sensor | smoke detector | leak sensor | doorbell | soil sensor | mailbox sensor
energy monitor | freezer sensor | heat pump | washing machine | dishwasher | barometer | light sensor | co2 sensor
noise sensor | fridge sensor | pool sensor | water tank | oil tank | pellet hopper | car battery | bed sensor
window sensor | garage sensor | pressure sensor | pollen sensor | uv sensor | water softener | sump pump"""

ZONES = """office | gym | park | library | cafe | airport | cabin | beach house | university | hospital | station
warehouse | pool | farm | lake house | church | mall | studio | daycare | club | school | dentist | stadium | museum
bakery | harbor | cinema | theater | market | barber shop | tennis court | golf course | workshop | garden center"""

FIRST_NAMES = """Alice | Bob | Carol | David | Emma | Frank | Grace | Henry | Isabel | Jack | Karen | Liam | Maria
Noah | Olivia | Peter | Quinn | Rachel | Sam | Tina | Ulrich | Victor | Wendy | Xavier | Yvonne | Zoe | Ahmed | Aisha
Anders | Andre | Anna | Antonio | Arjun | Astrid | Ben | Bianca | Boris | Bruno | Camille | Carlos | Chen | Chloe
Clara | Daniel | Diego | Dmitri | Elena | Elif | Eric | Esther | Eva | Fatima | Felix | Fiona | Gabriel | George
Giulia | Greta | Hana | Hassan | Helen | Hiro | Hugo | Ibrahim | Ines | Ingrid | Ivan | Jamal | James | Jane | Javier
Jenny | Jia | Joao | John | Julia | Kai | Katya | Kenji | Kofi | Lars | Laura | Leila | Leo | Lin | Lucas | Lucy
Luis | Maya | Mei | Mia | Miguel | Mike | Mina | Mohammed | Nadia | Nico | Nina | Nora | Omar | Oscar | Paul | Pedro
Petra | Priya | Rafael | Raj | Ravi | Rita | Robert | Rosa | Ruth | Sara | Sasha | Sean | Sofia | Stefan | Sven
Tariq | Tess | Theo | Thomas | Tomas | Ursula | Valerie | Vera | Viktor | Walter | Wei | Will | Yara | Yuki | Yusuf
Zara | Oliver | Amelia | Ethan | Harper | Mason | Evelyn | Logan | Abigail | Jacob | Ella | Aiden | Scarlett | Owen
Layla | Caleb | Hazel | Isaac | Violet | Nathan | Penelope | Adrian | Stella | Colin | Naomi | Desmond | Bridget"""

LAST_NAMES = """Smith | Jones | Garcia | Miller | Brown | Davis | Martinez | Lopez | Wilson | Anderson | Taylor | Moore
Jackson | Martin | Lee | Thompson | White | Harris | Clark | Lewis | Walker | Young | Allen | King | Wright | Scott
Torres | Nguyen | Hill | Green | Adams | Baker | Nelson | Carter | Mitchell | Roberts | Turner | Phillips | Campbell
Parker | Evans | Edwards | Collins | Stewart | Morris | Murphy | Cook | Rogers | Reed | Kelly | Kim | Patel | Khan
Singh | Ali | Chen | Wang | Tanaka | Sato | Schmidt | Weber | Rossi | Ferrari | Dubois | Novak | Kowalski | Ivanov
Larsen | Jensen | Silva | Santos | Costa | Okafor | Mensah | Haddad | Cohen | Levy | Yilmaz | Papadopoulos | Byrne"""

RELATIONS = """mom | dad | grandma | grandpa | my sister | my brother | my wife | my husband | my boss | my roommate
the landlord | the babysitter | the plumber | my doctor | the dentist | my neighbor | my teacher | aunt May | uncle Joe
Dr. Patel | Professor Lang | Mrs. Novak | Mr. Chen | the school | the office | my accountant | my lawyer | the vet
my cousin | my coach | the electrician | my therapist | my best friend | the team | my landlady | the mechanic"""

GROCERIES = """milk | eggs | bread | butter | cheese | yogurt | apples | bananas | oranges | lemons | limes | grapes
strawberries | blueberries | raspberries | pears | peaches | plums | cherries | mangoes | pineapple | watermelon | kiwis
avocados | tomatoes | potatoes | onions | garlic | carrots | celery | cucumbers | zucchini | eggplant | spinach | kale
lettuce | cabbage | broccoli | cauliflower | mushrooms | bell peppers | chili peppers | green beans | peas | corn
asparagus | leeks | radishes | beets | sweet potatoes | pumpkin | ginger | parsley | cilantro | basil | mint | dill
rosemary | thyme | chicken | chicken breast | ground beef | steak | pork chops | bacon | sausages | ham | turkey | lamb
salmon | tuna | cod | shrimp | tofu | tempeh | rice | brown rice | pasta | spaghetti | lasagna sheets | noodles
couscous | quinoa | oats | granola | cereal | flour | sugar | brown sugar | salt | black pepper | cinnamon | paprika
cumin | turmeric | curry powder | vanilla extract | baking powder | yeast | olive oil | sunflower oil | vinegar
balsamic vinegar | soy sauce | ketchup | mustard | mayonnaise | hot sauce | salsa | hummus | peanut butter | jam | honey
maple syrup | chocolate | dark chocolate | cookies | crackers | chips | popcorn | pretzels | almonds | walnuts | cashews
raisins | dates | ice cream | frozen pizza | frozen peas | fish sticks | orange juice | apple juice | sparkling water
mineral water | cola | lemonade | beer | red wine | white wine | coffee | coffee beans | green tea | black tea
chamomile tea | hot chocolate | oat milk | almond milk | soy milk | cream | sour cream | cream cheese | mozzarella
parmesan | feta | cheddar | goat cheese | tortillas | bagels | croissants | baguette | pita bread | rye bread
burger buns | toilet paper | paper towels | napkins | tissues | dish soap | laundry detergent | fabric softener
bleach | sponges | trash bags | aluminum foil | baking paper | cling film | shampoo | conditioner | soap | shower gel
toothpaste | toothbrushes | dental floss | deodorant | razors | shaving cream | sunscreen | hand cream | cotton pads
band-aids | aspirin | vitamins | cough drops | diapers | baby wipes | baby food | cat food | cat litter | dog food
dog treats | birdseed | fish food | light bulbs | batteries | candles | matches | a dozen eggs | two liters of milk
a bag of rice | a bunch of bananas | three lemons | a bottle of wine | six cans of tuna | a loaf of bread
half a pound of ham | two onions | some fresh fish | a jar of pickles | organic carrots | gluten free bread
whole wheat flour | coconut milk | lentils | chickpeas | black beans | kidney beans | canned tomatoes | tomato paste
vegetable broth | chicken stock | gnocchi | ravioli | miso paste | sesame oil | rice vinegar | nori | wasabi
oyster sauce | fish sauce | lemongrass | coconut flakes | chia seeds | flax seeds | pine nuts | pistachios | pecans
protein bars | sports drink | iced tea | kombucha | espresso pods | marshmallows | gummy bears | licorice | caramels
pancake mix | waffles | muffins | donuts | cheesecake | apple pie | birthday candles | wrapping paper | envelopes
stamps | printer paper | pens | notebooks | tape | glue sticks | scissors | olives | capers | anchovies | sardines
artichokes | fennel | figs | apricots | pomegranate | coconuts | papaya | dragon fruit | cranberries | rhubarb
bay leaves | cloves | nutmeg | saffron | cornstarch | powdered sugar | food coloring | sprinkles | buttermilk | ghee"""

TASKS = """call mom | call the dentist | water the plants | take out the trash | pick up the dry cleaning
pay the electricity bill | feed the cat | walk the dog | buy a birthday present | renew my passport | charge the car
clean the gutters | book a haircut | send the report | submit my timesheet | change the sheets | mow the lawn
defrost the chicken | check the oven | take my medicine | return the library books | back up my laptop
schedule a checkup | fix the leaky faucet | vacuum the stairs | iron my shirt | pack for the trip | print the tickets
renew the car insurance | cancel the gym membership | order new glasses | file my taxes | reply to the landlord
clean the fridge | update my resume | sign the permission slip | pick up the kids | bring the laptop home
prepare the slides | finish the essay | study for the exam | practice the piano | stretch | drink some water
stand up and move | look at the moon | move the car | put the bins out | call the bank | buy stamps
replace the smoke alarm battery | descale the kettle | wash the windows | organize the garage | donate old clothes
plant the tulips | trim the hedge | clean the fish tank | groom the dog | order a cake | send invitations
confirm the reservation | transfer the rent | check the mail | charge my headphones | empty the dishwasher
fold the laundry | sharpen the knives | oil the door hinge | sweep the patio | wax the car | rotate the tires
change the air filter | test the alarm | update the router | review the contract | proofread the article
email the client | invoice the customer | prepare lunch | bake the cookies | marinate the steak | set the table
turn the compost | collect the parcel | drop off the package | get a flu shot | refill the prescription
visit grandma | thank the host | apologize to the neighbors | congratulate the winner | choose a paint color
measure the window | hang the picture | assemble the shelf | sell the old bike | buy concert tickets
check in for the flight | exchange some currency | download the maps | charge the camera | clean the lens
learn ten new words | write in my journal | meditate | do my breathing exercises | go for a run | lift weights
take the bread out of the oven | turn off the sprinkler | close the greenhouse | bring in the laundry
cover the pool | feed the chickens | check on the baby | give the dog his pill | buy a new toothbrush
reset the password | install the update | scan the receipts | shred the old bills | call the insurance company"""

LISTS = """grocery | to-do | todo | packing | christmas | birthday | chores | work | weekend | wish | gift | party
hardware | camping | vacation | reading | movie | garden | school | pharmacy | project | cleaning | holiday | baby
recipe | repair | guest | bucket | homework | moving | office | errands | picnic | pet | beach | renovation"""

MESSAGES = """dinner is ready | I'm on my way | I'll be late | I'm running ten minutes late | the meeting is cancelled
happy birthday | see you soon | can you pick up some milk | don't forget your keys | I love you | call me back
I landed safely | the train is delayed | where are you | we are out of coffee | good luck with the exam
thanks for last night | the package has arrived | let's meet at the cafe | I'm at the station | the car broke down
are we still on for tonight | congratulations on the new job | please bring the charger | the kids are asleep
I forgot my wallet | the plumber is coming at nine | bring an umbrella | it's time for bed | time to get up
the bus leaves in five minutes | lunch is on the table | I'll call you later | get well soon | happy anniversary
sorry I missed your call | what time does it start | the show is about to start | the water will be off tomorrow
I found your jacket | your order is ready | the door is open | please feed the dog | the baby is sleeping
turn down the music | come downstairs | it's snowing outside | the game starts at eight | I'm stuck in traffic
save me a seat | I bought the tickets | the rent is due | I need the address | the wifi is down
everything went well | the doctor said it's fine | I'm proud of you | we won | let me know when you get home
send me the photos | I'll bring dessert | the cat is on the roof again | no worries | see you at the gym
the flight was cancelled | I'm in a meeting | talk to you tonight | I got the job | let's go hiking this weekend
the keys are under the mat | I'll take the bus | the dishwasher is broken | pizza or sushi tonight
please water the plants while I'm away | your dad is looking for you | the taxi is here | school is closed today
the report is finished | can we move the call to friday | the invoice is attached | I agree with the plan
meet me in front of the museum | thank you for the flowers | the concert was amazing | I left the oven on
we need to talk | we ran out of diapers | grandma is visiting on sunday | I'm feeling better now | nice to meet you
the movie was terrible | I passed my driving test | it was great to see you | the power is out
I'll be home before midnight | please sign the form | you left your phone here | breakfast is getting cold
the pool is open | everyone to the living room | fire drill in ten minutes | the guests are here | the cake is done
someone is at the door | clean up your rooms | homework first | the laundry is done | we leave in half an hour
the printer is out of paper | I booked the hotel | how was your day | did you feed the fish | I miss you
check your email | the parcel is with the neighbor | I'm almost there | don't wait for me | buy more stamps
it's your turn to cook | the test was easy | we got a puppy | have a safe trip | what's for dinner
tell the team I said hi | the deadline moved to monday | all good here | the roof is leaking again"""

SONGS = """bohemian rhapsody | hey jude | imagine | yesterday | let it be | thriller | billie jean | purple rain
hotel california | stairway to heaven | smells like teen spirit | wonderwall | creep | hallelujah | dancing queen
mamma mia | waterloo | africa | take on me | sweet dreams | under pressure | space oddity | heroes | rocket man
tiny dancer | piano man | dream on | free bird | born to run | thunder road | jolene | ring of fire | hurt
i walk the line | what a wonderful world | fly me to the moon | my way | summertime | georgia on my mind
autumn leaves | take five | so what | blue in green | respect | superstition | isn't she lovely | lean on me
stand by me | my girl | no woman no cry | redemption song | three little birds | one love | la vie en rose
bella ciao | despacito | rolling in the deep | someone like you | hello | viva la vida | yellow | fix you
clocks | mr brightside | seven nation army | float on | midnight city | electric feel | royals | team
shape of you | perfect | shake it off | blank space | bad guy | ocean eyes | levitating | blinding lights
uptown funk | happy | get lucky | one more time | around the world | blue monday | enjoy the silence | just like heaven
fast car | zombie | linger | dreams | landslide | the chain | go your own way | wild horses | paint it black
moon river | clair de lune | moonlight sonata | the four seasons | ode to joy | canon in d | bolero | the blue danube
wish you were here | comfortably numb | money | time | layla | wicked game | losing my religion | everybody hurts"""

ARTISTS = """the beatles | queen | david bowie | michael jackson | prince | madonna | abba | elton john | pink floyd
led zeppelin | the rolling stones | radiohead | nirvana | oasis | blur | coldplay | adele | beyonce | rihanna
taylor swift | ed sheeran | billie eilish | lady gaga | bruno mars | daft punk | the weeknd | drake | kendrick lamar
jay-z | eminem | outkast | a tribe called quest | lauryn hill | stevie wonder | aretha franklin | marvin gaye
otis redding | bill withers | al green | bob marley | johnny cash | dolly parton | willie nelson | bob dylan
joni mitchell | leonard cohen | neil young | simon and garfunkel | fleetwood mac | the eagles | bruce springsteen
tom waits | miles davis | john coltrane | dave brubeck | chet baker | bill evans | ella fitzgerald | billie holiday
nina simone | louis armstrong | frank sinatra | edith piaf | mozart | beethoven | bach | chopin | debussy | vivaldi
philip glass | arvo part | hans zimmer | john williams | ennio morricone | kraftwerk | depeche mode | new order
the cure | the smiths | joy division | talking heads | blondie | the clash | ramones | metallica | iron maiden
black sabbath | rammstein | sigur ros | bjork | portishead | massive attack | gorillaz | arctic monkeys | the strokes
tame impala | bon iver | sufjan stevens | the national | arcade fire | vampire weekend | fela kuti | buena vista social club"""

ALBUMS = """abbey road | the dark side of the moon | rumours | kind of blue | nevermind | thriller | blue | pet sounds
ok computer | kid a | back to black | random access memories | the wall | graceland | tapestry | purple rain
highway 61 revisited | london calling | remain in light | violator | disintegration | dummy | mezzanine | homogenic
discovery | hounds of love | heroes | low | hunky dory | harvest | born in the usa | the joshua tree | automatic for the people
songs in the key of life | what's going on | a love supreme | time out | blue train | lemonade | folklore | 1989"""

PLAYLISTS = """morning coffee | workout mix | road trip | chill vibes | deep focus | sunday jazz | party hits
summer classics | rainy day | dinner party | sleep sounds | study beats | running tunes | acoustic covers | throwback
feel good friday | lofi beats | cooking time | kids favorites | christmas carols | indie mix | power hour | slow dance
evening piano | baroque morning | guitar heroes | songs to sing in the car | late night drive | yoga flow | happy days"""

PODCASTS = """this american life | radiolab | serial | planet money | hardcore history | the daily | science friday
freakonomics | song exploder | stuff you should know | invisibilia | hidden brain | reply all | 99 percent invisible
the moth | in our time | desert island discs | history of rome | lore | snap judgment | criminal | ted talks daily"""

MOVIES = """casablanca | the godfather | jaws | star wars | alien | blade runner | the matrix | inception | amelie
spirited away | my neighbor totoro | toy story | finding nemo | the lion king | frozen | jurassic park | titanic
gladiator | the big lebowski | fargo | pulp fiction | goodfellas | psycho | vertigo | rear window | singin in the rain
back to the future | the goonies | groundhog day | die hard | home alone | paddington | parasite | arrival | dune"""

SHOWS = """friends | seinfeld | the office | breaking bad | the sopranos | the wire | stranger things | the crown
doctor who | sherlock | downton abbey | planet earth | the simpsons | futurama | star trek | the expanse | dark
twin peaks | lost | fawlty towers | columbo | bluey | sesame street | the great british bake off | cosmos"""

TIMER_NAMES = """pizza | pasta | eggs | egg | tea | coffee | laundry | bread | cookie | cake | rice | chicken | turkey
roast | potato | oven | grill | nap | study | workout | yoga | plank | homework | break | focus | pomodoro | meeting
parking | bath | shower | tooth brushing | reading | screen time | game | piano | meditation | dishwasher | dryer
sourdough | muffin | brownie | steak | soup | lasagna | noodle | popcorn | barbecue | ice bath | stretching | sauna
face mask | hair dye | medicine | plant watering | timeout | chess | quiz | speech | presentation | charger | rest
sprinkler | marinade | dough | jam | fudge | curry | risotto | salmon | ham | pie | quiche | bagel | kettle"""

CITIES = """London | Paris | Berlin | Madrid | Rome | Vienna | Prague | Warsaw | Budapest | Lisbon | Dublin | Oslo
Stockholm | Copenhagen | Helsinki | Amsterdam | Brussels | Zurich | Geneva | Munich | Hamburg | Cologne | Frankfurt
Barcelona | Seville | Valencia | Porto | Milan | Venice | Florence | Naples | Athens | Istanbul | Ankara | Moscow
Kyiv | Tallinn | Riga | Vilnius | Reykjavik | Edinburgh | Glasgow | Manchester | Liverpool | Bristol | Leeds | Cardiff
New York | Boston | Chicago | Seattle | Portland | San Francisco | Los Angeles | San Diego | Las Vegas | Phoenix
Denver | Dallas | Houston | Austin | New Orleans | Miami | Atlanta | Nashville | Philadelphia | Washington | Detroit
Minneapolis | Toronto | Montreal | Vancouver | Ottawa | Calgary | Mexico City | Guadalajara | Havana | Bogota | Lima
Quito | Santiago | Buenos Aires | Montevideo | Sao Paulo | Rio de Janeiro | Brasilia | Caracas | Cairo | Casablanca
Marrakesh | Tunis | Lagos | Accra | Nairobi | Addis Ababa | Cape Town | Johannesburg | Dakar | Tel Aviv | Jerusalem
Beirut | Amman | Dubai | Doha | Riyadh | Tehran | Karachi | Lahore | Delhi | Mumbai | Bangalore | Chennai | Kolkata
Dhaka | Colombo | Kathmandu | Bangkok | Hanoi | Saigon | Singapore | Kuala Lumpur | Jakarta | Manila | Hong Kong
Taipei | Shanghai | Beijing | Shenzhen | Chengdu | Seoul | Busan | Tokyo | Osaka | Kyoto | Sapporo | Sydney | Melbourne
Brisbane | Perth | Adelaide | Auckland | Wellington | Honolulu | Anchorage | Salt Lake City | Kansas City | Bergen"""

PLACES = """the airport | the train station | work | home | the city museum | Central Park | the nearest hospital
the public library | the zoo | the aquarium | city hall | the stadium | the opera house | the botanical garden
the main square | the harbor | the old town | the university | the north beach | the ski resort | Oxford Street
Times Square | the Eiffel Tower | the Louvre | Big Ben | the Colosseum | Grand Central | Union Station | Pier 39
12 Maple Street | 48 River Road | 221 Baker Street | 7 Elm Avenue | 1600 Sunset Boulevard | 35 Church Lane
90 Station Road | 5 Market Square | 64 Hill Crescent | 18 Orchard Drive | 301 Pine Street | 77 Lakeside Way
the post office | the courthouse | the shopping mall | the farmers market | the bus terminal | the ferry terminal
the convention center | the concert hall | my sister's place | the golf club | the climbing gym | the vet clinic
the science museum | the national gallery | the bowling alley | the drive-in | the lighthouse | the waterfall
the castle | the cathedral | the campground | Redwood Forest | Lake Geneva | Mount Royal | Pine Valley | Silver Creek
the garden center | the hardware store | the embassy | the dog park | the ice rink | the film studio | the brewery"""

PLACE_TYPES = """coffee shop | gas station | pharmacy | supermarket | bakery | atm | bank | hospital | parking garage
charging station | pizza place | sushi restaurant | vegan restaurant | burger joint | bar | pub | wine bar | bookstore
hardware store | florist | pet store | hair salon | barber | gym | yoga studio | swimming pool | playground | park
cinema | theater | museum | library | post office | police station | hotel | hostel | campground | car wash | mechanic
bike shop | laundromat | dry cleaner | dentist | vet | ice cream parlor | taco stand | ramen shop | tea house | hiking trail
dog park | tennis court | golf course | shoe store | toy store | butcher | fish market | thrift store | optician"""

EVENTS = """dentist appointment | team meeting | lunch with Anna | dinner with the Smiths | yoga class | project review
doctor's appointment | haircut | parent teacher conference | budget meeting | birthday party | piano lesson
job interview | book club | date night | soccer practice | staff meeting | sprint planning | movie night | car service
coffee with Tom | board meeting | swimming lesson | spanish class | performance review | product demo | wedding rehearsal
vet appointment | house viewing | gym session | band practice | guitar lesson | client call | design workshop
family dinner | game night | school play | tax consultation | physio session | volunteer shift | choir rehearsal
science fair | company picnic | garden tour | wine tasting | cooking class | pottery workshop | chess tournament
marathon training | photo shoot | eye exam | blood test | kickoff meeting | one on one with Priya | standup | retrospective
barbecue at Luke's | baby shower | housewarming party | graduation ceremony | museum visit | theater evening
networking event | charity run | karaoke night | study group | debate club | language exchange | code review
moving day | flight to Boston | train to Leeds | webinar | open house | fire drill | inventory check | quarterly report"""

SUBJECTS = """quarterly report | meeting notes | travel plans | invoice for march | job application | project update
weekend plans | budget proposal | lease renewal | party invitation | holiday schedule | feedback on the draft
new contract | team lunch | question about the order | refund request | conference agenda | updated timeline
thank you | photos from the trip | password reset | delivery problem | vacation request | monthly newsletter
test results | insurance claim | repair estimate | reading list | sales figures | launch checklist | welcome aboard
missing package | course registration | tax documents | interview schedule | marketing ideas | room booking
expense report | lunch order | security update | product feedback | design review | rent payment | volunteer list"""

NOTES = """the wifi password is sunflower | the spare key is with the neighbor | ideas for the birthday party
parking spot B 42 | my locker number is 317 | the plumber charges eighty an hour | try the new thai restaurant
paint the fence in spring | the baby said her first word | the book I want is called winter light
call the school about the trip | the license plate is KX 204 | the recipe needs two more eggs
the boiler was serviced in may | we liked the blue tiles best | the garage code is 4471 | Tom is allergic to nuts
buy a bigger suitcase | my shoe size is forty two | the tomato seeds are in the shed | the train leaves from platform six
ask about the discount | the meeting room is on the third floor | look up flights to Lisbon | the cat weighs five kilos
plan the garden in february | learn the second verse | the printer needs black ink | the shop closes at seven
the hotel is next to the station | my blood type is o positive | dad's favorite cake is carrot | the lease ends in june
use less salt next time | the guarantee lasts three years | we owe the neighbors a dinner | the chairs cost forty each
stretch before running | the museum is free on sundays | the wine was a pinot noir | call back after lunch
start the essay with a question | the lamp takes two small batteries | the bike needs a new chain | rent a van for moving"""

NOTE_TITLES = """shopping ideas | meeting notes | recipe for soup | travel plans | gift ideas | book list | lecture notes
project ideas | garden plan | workout plan | diary | passwords | measurements | quotes | birthday ideas | budget
reading notes | packing list | house rules | song lyrics | story ideas | dream log | wine notes | car repairs
trip itinerary | interview questions | speech draft | blog ideas | baby names | paint colors | todo for monday"""

TOPICS = """best hiking boots | how to tie a bow tie | cheap flights to Lisbon | history of the bicycle
symptoms of the flu | population of Canada | how tall is mount everest | vegan pancake recipe | used electric cars
python list comprehension | how to remove a wine stain | local election results | world cup schedule
best science fiction novels | how to train a puppy | growing tomatoes on a balcony | northern lights forecast
capital of Mongolia | speed of light | who invented the telephone | cheap hotels in Rome | how to whistle
knitting patterns for beginners | solar panel prices | black hole pictures | museum opening hours
nearest national park | how to change a tire | origin of chess | benefits of green tea | lego train sets
mortgage rates | electric guitar lessons | sourdough starter tips | train strikes in France | roman emperors
how to fold a fitted sheet | dinosaur documentaries | wireless headphones reviews | marathon world record
learning to juggle | best pizza in Naples | home insulation grants | how bees make honey | jazz festivals this summer
moon phases | bicycle repair shops | digital cameras under five hundred | public holidays in Spain | volcano eruptions
how to write a cover letter | dog friendly beaches | climate of Iceland | second hand furniture | origami animals
cat breeds | salary of a nurse | deep sea creatures | history of jazz | tax deductions for students | van life ideas
easy card tricks | the tallest building in the world | mars rover news | indoor plants for low light | carbon footprint
chess openings | steam engine design | weekend trips from Berlin | swimming technique | bird calls | antique clocks"""

WORDS = """serendipity | ephemeral | ubiquitous | melancholy | quintessential | eloquent | resilient | ambiguous
paradox | nostalgia | gregarious | meticulous | candid | diligent | frugal | obsolete | pragmatic | tenacious | verbose
whimsical | zealous | benevolent | cacophony | dichotomy | enigma | facade | hubris | idyllic | juxtapose | kindle
lethargic | mundane | nuance | oblivious | pinnacle | quaint | rhetoric | sublime | tangible | unanimous | vicarious
wistful | arcane | brevity | conundrum | deft | epiphany | fathom | gullible | harbinger | impeccable | jubilant
lucid | mercurial | nefarious | opulent | placid | querulous | raucous | solace | trepidation | umbrage | vivacious"""

LANGUAGES = """French | Spanish | German | Italian | Portuguese | Dutch | Swedish | Norwegian | Danish | Finnish
Icelandic | Polish | Czech | Slovak | Hungarian | Romanian | Bulgarian | Greek | Turkish | Russian | Ukrainian | Serbian
Croatian | Slovenian | Estonian | Latvian | Lithuanian | Arabic | Hebrew | Persian | Hindi | Urdu | Bengali | Tamil
Telugu | Punjabi | Nepali | Thai | Vietnamese | Indonesian | Malay | Tagalog | Chinese | Mandarin | Cantonese | Japanese
Korean | Mongolian | Swahili | Zulu | Yoruba | Hausa | Amharic | Somali | Afrikaans | Irish | Welsh | Basque | Catalan
Galician | Latin | Esperanto | Albanian | Armenian | Georgian | Kazakh | Maltese"""

PHRASES = """good morning | thank you very much | where is the train station | how much does it cost | I am lost
I would like a coffee | the bill please | nice to meet you | where is the bathroom | I don't understand
can you help me | I am allergic to peanuts | what time is breakfast | two tickets please | I love this city
where can I buy a map | is this seat taken | have a nice day | happy new year | I am learning your language
call an ambulance | a table for two | do you speak English | the food was delicious | how do you say this
I need a doctor | turn left at the church | what is your name | my suitcase is missing | excuse me
see you tomorrow | cheers | how far is the beach | I missed my bus | a glass of water please | good night
congratulations | no sugar please | when does the museum open | we are on holiday | I have a reservation
the weather is beautiful | please speak slowly | best wishes to your family | it is too expensive | welcome home
can I pay by card | I am vegetarian | how old are you | safe travels | the key does not work | keep the change"""

DISHES = """pad thai | sushi | ramen | chicken curry | butter chicken | tacos | burritos | quesadillas | nachos | lasagna
spaghetti carbonara | mushroom risotto | caesar salad | greek salad | falafel wrap | shawarma | gyros | kebab | moussaka
paella | gazpacho | fish and chips | shepherd's pie | beef stew | goulash | schnitzel | pierogi | borscht | pho | banh mi
spring rolls | fried rice | dumplings | dim sum | peking duck | kung pao chicken | mapo tofu | bibimbap | kimchi stew
bulgogi | green curry | tom yum soup | satay | nasi goreng | rendang | biryani | palak paneer | dal | samosas | naan
hummus plate | tabbouleh | couscous | tagine | jollof rice | bunny chow | poutine | clam chowder | lobster roll
cheeseburger | veggie burger | hot dog | mac and cheese | grilled cheese | club sandwich | pulled pork | ribs
fried chicken | chicken wings | buffalo wings | cobb salad | minestrone | onion soup | quiche | ratatouille | crepes
beef bourguignon | tiramisu | apple strudel | cheesecake | pancakes | waffles | omelette | shakshuka | poke bowl
ceviche | empanadas | arepas | feijoada | enchiladas | chili con carne | meatballs | gnocchi | tortellini | calzone"""

RESTAURANTS = """Luigi's | the Golden Dragon | Taco Palace | Burger Barn | Sakura House | Bombay Garden | Chez Marie
the Blue Door | Olive Tree | Casa Pepe | Thai Orchid | Noodle Bar | the Hungry Goat | Mama Rosa | Green Bowl
the Fisherman's Inn | Little Saigon | Pita Corner | Bella Napoli | the Copper Pot | Dragon Palace | Spice Route
Café Central | the Old Mill | La Cantina | Harbor Grill | Smokehouse 42 | Pho Saigon | Tokyo Table | Seoul Kitchen
the Red Lion | Trattoria Verde | The Corner Bistro | Maison Bleue | El Toro | Curry Leaf | Zorba's | Falafel King
Slice of Heaven | the Rusty Spoon | Lotus Garden | Wok This Way | Pancake House | Stone Oven | the Velvet Fork"""

TOPPINGS = """mushrooms | pepperoni | olives | onions | extra cheese | ham | pineapple | bacon | sausage | spinach
jalapenos | artichokes | anchovies | basil | tomatoes | green peppers | garlic | feta | chicken | sweet corn | rocket
salami | prosciutto | capers | broccoli | sun-dried tomatoes | goat cheese | mozzarella | tuna | eggplant | chili flakes"""

COMPANIES = """Apple | Microsoft | Amazon | Tesla | Netflix | Nvidia | Intel | Toyota | Sony | Nintendo | Samsung | Nokia
Siemens | Volkswagen | Ferrari | Nestle | Unilever | Adidas | Nike | Coca-Cola | Pepsi | Disney | Boeing | Airbus
Pfizer | Novartis | Shell | Visa | Mastercard | Walmart | Target | Costco | Ikea | Zara | Spotify | Uber | Airbnb
Adobe | Oracle | Cisco | Qualcomm | Ford | Honda | Hyundai | Philips | Bosch | Lego | Danone | Heineken | Roche
General Electric | Goldman Sachs | Morgan Stanley | Lufthansa | Ryanair | Starbucks | McDonald's | Caterpillar | Kodak"""

APPS = """the camera | the calculator | the calendar | the photo gallery | Spotify | YouTube | Netflix | WhatsApp | Telegram
Signal | Slack | Zoom | Discord | Instagram | Pinterest | Reddit | Duolingo | Strava | Kindle | Audible | Shazam | Uber
Airbnb | the app store | the clock | the compass | the voice recorder | the file manager | the settings | the browser
Chess Master | Candy Crush | Sudoku | Wordle | the bank app | the podcast player | Google Maps | Photoshop | Notion
Evernote | Trello | Dropbox | Skype | Twitch | Steam | the flashlight app | the weather app | Bear Notes"""

ACTIVITIES = """running | cycling | swimming | yoga | rowing | hiking | walking | weightlifting | pilates | boxing
tennis | football | basketball | climbing | skiing | skating | dancing | martial arts | jump rope | zumba | crossfit
stretching | badminton | volleyball | squash | surfing | kayaking | golf | spinning | nordic walking | table tennis"""

COMMANDS = """turn off the lights | turn on the sprinkler | open the garage door | close the blinds | lock the front door
turn on the heating | turn off the oven | start the vacuum | stop the music | turn off the tv | open the curtains
turn on the porch light | turn off the fan | unlock the back door | play some jazz | turn down the volume
start the dishwasher | close the windows | turn on the coffee machine | dim the lights | turn off the heater
open the gate | activate the alarm | turn on the air conditioner | pause the movie | close the garage door
turn off everything | start the washing machine | open the skylight | turn on the radio | raise the shutters"""

JOKE_TOPICS = """cats | dogs | computers | programmers | lawyers | doctors | penguins | cheese | math | physics | bicycles
elephants | ghosts | pirates | robots | teachers | vegetables | trains | the weather | musicians | chickens | fish
astronauts | dinosaurs | coffee | mondays | school | football | bananas | vampires"""

BELONGINGS = """house keys | wallet | phone | glasses | tablet | backpack | headphones | earbuds | car keys | luggage | watch
bike | camera | umbrella | passport | laptop | purse | remote | cat | dog tag | suitcase | e-reader | skateboard"""
