package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/admin"
)

// An adminClient asks a running Weir.
type adminClient struct {
	base      string // URL of the admin address
	tokenFile string
	direct    http.Handler // answers in its place; nil: nobody does
}

const (
	defaultAdmin = "http://127.0.0.1:9090"
	adminWait    = 10 * time.Second // for an answer
	mostAnswer   = 16 << 20         // bytes of an answer
	mostToken    = 64 << 10         // bytes of a token's file
)

// adminFlags adds the flags that say which Weir is asked.
func adminFlags(cmd *cobra.Command, c *adminClient) {
	cmd.Flags().StringVar(&c.base, "admin", defaultAdmin, "URL of the admin address of a running Weir")
	cmd.Flags().StringVar(&c.tokenFile, "token-file", "", "file with its admin_token or admin_read_token")
	_ = cmd.MarkFlagFilename("token-file") // fails only for a flag that does not exist
}

// check returns what is wrong with the flags.
func (c *adminClient) check() error {
	u, err := url.Parse(c.base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--admin %s: want a URL, as in %s", c.base, defaultAdmin)
	}
	return nil
}

// ask sends a request, with body as JSON unless it is nil, and decodes the answer into out.
func (c *adminClient) ask(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	client := http.DefaultClient
	if c.direct != nil {
		client = &http.Client{Transport: handlerTransport{c.direct}}
	}
	res, err := client.Do(r)
	var cause *url.Error
	if errors.As(err, &cause) {
		return fmt.Errorf("%s does not answer: %w: is Weir running, and is this its admin address?", c.base, cause.Err)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", c.base, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return refusal(c.base, res.StatusCode, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s%s: no answer of a Weir's: %w", c.base, path, err)
	}
	return nil
}

func (c *adminClient) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.base, "/")+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.tokenFile == "" {
		return r, nil
	}
	f, err := os.Open(c.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	defer f.Close()
	token, err := io.ReadAll(io.LimitReader(f, mostToken))
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return r, nil
}

// refusal is the error of an answer that is none.
func refusal(base string, status int, text []byte) error {
	var p admin.Problem
	if json.Unmarshal(text, &p) != nil || p.Status == 0 {
		return fmt.Errorf("%s answered %d %s: is this the admin address of a Weir?", base, status, http.StatusText(status))
	}
	if p.Status == http.StatusUnauthorized {
		p.Detail += ": give it with --token-file"
	}
	return &p
}
