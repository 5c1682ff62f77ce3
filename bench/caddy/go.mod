module github.com/weirgate/weir/bench/caddy

go 1.26.8
