package wire

import (
	"os/exec"
	"path/filepath"
	"strings"
)

const nginxLimits = `worker_processes 1;
daemon off;
pid %[1]s/pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  limit_req_zone $binary_remote_addr zone=clients:10m rate=%[4]s;
  limit_req_status 429;
  limit_req_log_level info;
  upstream backend { server %[3]s; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen %[2]s backlog=1024;
    location / {
      limit_req zone=clients%[5]s;
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr;
    }
  }
}
`

// nginx limits each client by limit_req.
func (f *field) nginx(at string, refuse bool) ([]string, error) {
	rate, burst := "1000000r/s", " burst=100000 nodelay"
	if refuse {
		rate, burst = "1r/m", ""
	}
	dir := "nginx-" + strings.ReplaceAll(at, ":", "-")
	file, err := f.write(filepath.Join(dir, "nginx.conf"), nginxLimits, filepath.Join(f.dir, dir), at, f.backend.Address, rate, burst)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("nginx")
	return []string{program, "-c", file, "-e", "stderr"}, err
}

const haproxyLimits = `global
  nbthread 1
  maxconn 2000
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
backend clients
  stick-table type ipv6 size 1m expire 60s store http_req_rate(60s)
frontend limited
  bind %s
  http-request track-sc0 src table clients
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt %s }
  default_backend service
backend service
  http-reuse always
  server service %s
`

// haproxy limits each client by a stick table.
func (f *field) haproxy(at string, refuse bool) ([]string, error) {
	most := "2000000000"
	if refuse {
		most = "10"
	}
	file, err := f.write("haproxy-"+strings.ReplaceAll(at, ":", "-")+".cfg", haproxyLimits, at, most, f.backend.Address)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("haproxy")
	return []string{program, "-db", "-f", file}, err
}
