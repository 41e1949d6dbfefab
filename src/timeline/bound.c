/* bound.c - what no order of the tasks of a step can be faster than. */
#include "timeline/bound.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

const char *dsf_bound_str(enum dsf_bound bound)
{
    static const char *const names[DSF_NBOUNDS] = {
        [DSF_BOUND_CRITICAL] = "way",  [DSF_BOUND_WORK] = "work",
        [DSF_BOUND_LINK] = "link",     [DSF_BOUND_HOST] = "host",
        [DSF_BOUND_DISK] = "disk",     [DSF_BOUND_READS] = "reads",
        [DSF_BOUND_WRITES] = "writes",
    };

    return names[bound];
}

static void add_lane(struct dsf_teams *teams, unsigned lane,
                     enum dsf_bound kind, bool joins)
{
    if (!joins)
        teams->v[teams->n++] = (struct dsf_team){ .kind = kind };
    /* The second direction of a disk joins, but does not work beside. */
    if (!joins || kind == DSF_BOUND_WORK || kind == DSF_BOUND_HOST)
        teams->v[teams->n - 1].members++;
    teams->of_lane[lane] = (uint16_t)(teams->n - 1);
}

void dsf_teams_init(struct dsf_teams *teams, const struct dsf_timeline *lanes,
                    bool duplex)
{
    unsigned ndisks = 0;

    memset(teams, 0, sizeof(*teams));
    teams->v = dsf_xcalloc(lanes->nlanes + 1, sizeof(*teams->v));
    teams->of_lane = dsf_xcalloc(lanes->nlanes + 1, sizeof(*teams->of_lane));
    for (unsigned i = 0; i < lanes->nlanes; i++) {
        const struct dsf_lane *lane = &lanes->lanes[i];
        bool second = lane->kind == DSF_LANE_DISK && ndisks++ % 2 == 1;
        bool follows = i > 0 && lane->rank >= 0 &&
                       lanes->lanes[i - 1].kind == lane->kind &&
                       lanes->lanes[i - 1].rank == lane->rank;

        switch ((enum dsf_lane_kind)lane->kind) {
        case DSF_LANE_LINK:
            add_lane(teams, i, DSF_BOUND_LINK, false);
            break;
        case DSF_LANE_HOST:
            add_lane(teams, i, DSF_BOUND_HOST, follows);
            break;
        case DSF_LANE_DISK:
            add_lane(teams, i,
                     !duplex  ? DSF_BOUND_DISK
                     : second ? DSF_BOUND_WRITES
                              : DSF_BOUND_READS,
                     second && !duplex);
            break;
        default:
            teams->workers++;
            add_lane(teams, i, DSF_BOUND_WORK, follows);
        }
    }
}

void dsf_teams_fini(struct dsf_teams *teams)
{
    free(teams->v);
    free(teams->of_lane);
    memset(teams, 0, sizeof(*teams));
}

void dsf_load_init(struct dsf_load *load, const struct dsf_teams *teams)
{
    *load = (struct dsf_load){
        .teams = teams,
        .seconds = dsf_xcalloc(teams->n + 1, sizeof(*load->seconds)),
    };
}

void dsf_load_clear(struct dsf_load *load)
{
    memset(load->seconds, 0, load->teams->n * sizeof(*load->seconds));
    load->workers = 0;
}

void dsf_load_add(struct dsf_load *load, unsigned lane, double seconds,
                  bool placed)
{
    unsigned team = load->teams->of_lane[lane];
    bool works = load->teams->v[team].kind == DSF_BOUND_WORK;

    if (works)
        load->workers += seconds;
    if (placed || !works)
        load->seconds[team] += seconds;
}

void dsf_load_fini(struct dsf_load *load)
{
    free(load->seconds);
    memset(load, 0, sizeof(*load));
}

double dsf_bound_seconds(const struct dsf_load *load, double critical,
                         enum dsf_bound *what)
{
    double most = critical;

    *what = DSF_BOUND_CRITICAL;
    if (load->teams->workers > 0 &&
        load->workers / load->teams->workers > most) {
        most = load->workers / load->teams->workers;
        *what = DSF_BOUND_WORK;
    }
    for (unsigned i = 0; i < load->teams->n; i++) {
        const struct dsf_team *team = &load->teams->v[i];

        if (load->seconds[i] / team->members > most) {
            most = load->seconds[i] / team->members;
            *what = team->kind;
        }
    }
    return most;
}
