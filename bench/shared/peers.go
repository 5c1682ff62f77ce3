package shared

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
	"github.com/weirgate/weir/store/redis"
)

// ours is how many of the contenders are Weir's store: with one limit, and with three.
const ours = 2

// contenders are the store and its peers, the plainest of them first.
func contenders(store *redis.Store, client *goredis.Client) ([]contender, error) {
	names := clientNames()
	all := []contender{{"store/redis", takes(store, names, 1)}, {"store/redis, three limits", takes(store, names, 3)}}
	for _, open := range []func(*goredis.Client, []string) (contender, error){plain, redisRate, ululeLimiter, throttledLimiter} {
		peer, err := open(client, names)
		if err != nil {
			return nil, err
		}
		all = append(all, peer)
	}
	return all, nil
}

const plainScript = `local c = tonumber(redis.call('GET', KEYS[1]) or '0')
if c >= tonumber(ARGV[1]) then return {0, c} end
c = redis.call('INCR', KEYS[1])
if c == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {1, c}`

func plain(client *goredis.Client, names []string) (contender, error) {
	sha, err := client.ScriptLoad(context.Background(), plainScript).Result()
	return contender{"plain EVALSHA", func(i int) error {
		return client.EvalSha(context.Background(), sha, []string{names[i%clients]}, unlimited, 60_000).Err()
	}}, err
}

func redisRate(client *goredis.Client, names []string) (contender, error) {
	l := redis_rate.NewLimiter(client)
	return contender{"redis_rate", func(i int) error {
		_, err := l.Allow(context.Background(), names[i%clients], redis_rate.PerMinute(math.MaxInt32))
		return err
	}}, nil
}

func ululeLimiter(client *goredis.Client, names []string) (contender, error) {
	store, err := ulule.NewStoreWithOptions(client, limiter.StoreOptions{Prefix: "ulule"})
	l := limiter.New(store, limiter.Rate{Period: time.Minute, Limit: unlimited})
	return contender{"ulule/limiter", func(i int) error {
		_, err := l.Get(context.Background(), names[i%clients])
		return err
	}}, err
}

// throttledLimiter never meets another caller at the same key here; where it does, it may give up.
func throttledLimiter(client *goredis.Client, names []string) (contender, error) {
	store, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return contender{}, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(1_000_000), MaxBurst: 1 << 26})
	return contender{"throttled", func(i int) error {
		_, _, err := l.RateLimitCtx(context.Background(), names[i%clients], 1)
		return err
	}}, err
}

// beside is what a decision with one limit costs the peers and Redis, beside Weir's.
func beside(callers int, contenders []contender, figures []figure) (peers []report.Peer) {
	for i, c := range contenders[ours:] {
		f := figures[ours+i]
		peers = append(peers,
			report.Peer{Name: c.name, What: fmt.Sprintf("time, %d at once", callers), Cost: rounds.Ratio(f.walls, figures[0].walls)},
			report.Peer{Name: c.name, What: fmt.Sprintf("Redis CPU, %d at once", callers), Cost: f.cpu / figures[0].cpu})
	}
	return peers
}
