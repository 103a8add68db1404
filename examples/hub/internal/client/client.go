// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package client has the commands that call the API of a running hub. README.md of examples/hub
// describes them.
package client

import (
	"bytes"
	"cmp"
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

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/internal/commands"
	"github.com/spokewire/sdk-go/examples/internal/table"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

const (
	// timeout limits a request, in addition to the time that it waits.
	timeout = time.Minute
	// watchTime is the time that a request waits for a change.
	watchTime = 50 * time.Second
	// maxAnswer is the maximum size of an answer.
	maxAnswer = 256 << 20
	// ownToken has the token that a hub on this machine has written.
	ownToken = "hub-data/admin.token"
)

// options are flag names by the options of package tlsfiles.
var options = tlsfiles.OptionNames{"CAFile": "--api-ca", "CertFile": "--api-cert", "KeyFile": "--api-key"}

// client has the flags of all commands, and calls the API.
type client struct {
	api, tokenFile string
	tls            tlsfiles.Client
	output         *commands.Enum
	watch          bool
	out            io.Writer
	http           *http.Client // nil before the first call
	token          string
}

func (c *client) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.api, "api", "http://localhost:8080", "the `URL` of the hub's page and API")
	flags.StringVar(&c.tokenFile, "token-file", "", "the bearer token in `FILE` (default "+ownToken+
		", if it exists and the hub is on this machine)")
	flags.StringVar(&c.tls.CAFile, "api-ca", "", "the CAs of the hub's certificate in `FILE` (default: the system's)")
	flags.StringVar(&c.tls.CertFile, "api-cert", "", "a client certificate in `FILE`, with --api-key")
	flags.StringVar(&c.tls.KeyFile, "api-key", "", "the key of the certificate in `FILE`")
}

// connect checks the flags, once.
func (c *client) connect() error {
	if c.http != nil {
		return nil
	}
	u, err := url.Parse(c.api)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return commands.Mistake("--api: %q: must be http://HOST:PORT or https://HOST:PORT", c.api)
	}
	local := httpserve.Loopback(u.Hostname())
	switch {
	case u.Scheme == "http" && c.tls.Option() != "":
		return commands.Mistake("%s needs an --api with https://", options[c.tls.Option()])
	case (c.tls.CertFile == "") != (c.tls.KeyFile == ""):
		return commands.Mistake("only one of --api-cert and --api-key is set")
	case c.tokenFile != "" && u.Scheme == "http" && !local:
		return commands.Mistake("--token-file: the token would not be encrypted on its way to %s: use https://", c.api)
	}
	file := c.tokenFile
	if file == "" && local {
		file = ownToken
	}
	if content, err := os.ReadFile(file); err == nil {
		c.token = strings.TrimSpace(string(content))
		c.tokenFile = file
	} else if c.tokenFile != "" {
		return commands.Mistake("--token-file: %w", err)
	}
	config, err := c.tls.Config(u.Hostname())
	if err != nil {
		return commands.Mistake("%w", options.Error(err))
	}
	c.http = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// path returns the path of a request, with escaped parts.
func path(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/api/v1/" + strings.Join(parts, "/")
}

// send sends a request with a body, which is JSON or text, or nil. It returns nil if the answer is
// the one with the tag.
func (c *client) send(ctx context.Context, method, path string, body any, tag *string) ([]byte, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	content, isText := body.([]byte)
	if !isText && body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+watchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.api, "/")+path, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("--api: %w", err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if tag != nil {
		r.Header.Set("If-None-Match", *tag)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	if content, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1)); err != nil {
		return nil, c.unreachable(err)
	}
	switch {
	case len(content) > maxAnswer:
		return nil, fmt.Errorf("--api %s: the answer has more than %d bytes", c.api, maxAnswer)
	case response.StatusCode == http.StatusNotModified:
		return nil, nil
	case response.StatusCode/100 != 2:
		return nil, c.refused(response, content)
	}
	if tag != nil {
		*tag = response.Header.Get("ETag")
	}
	return content, nil
}

// unreachable returns the error for a hub that does not answer.
func (c *client) unreachable(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // without method and URL
	}
	return fmt.Errorf("--api %s: %w: is a hub running with this --listen?", c.api, options.Error(err))
}

// refused returns the error for an answer without success.
func (c *client) refused(response *http.Response, content []byte) error {
	var problem struct{ Error string }
	_ = json.Unmarshal(content, &problem)
	err := errors.New(table.Plain(cmp.Or(problem.Error, response.Status)))
	if problem.Error == "" {
		err = fmt.Errorf("--api %s: %w: is this a hub?", c.api, err)
	}
	if code := response.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden {
		used := "set --token-file to a file with a token of this hub"
		if c.tokenFile != "" {
			used = "--token-file " + c.tokenFile + " has no token with this right"
		}
		err = fmt.Errorf("--api %s: %w: %s", c.api, err, used)
	}
	return err
}

// load decodes the answer of a request.
func (c *client) load(ctx context.Context, method, path string, body, into any) error {
	content, err := c.send(ctx, method, path, body, nil)
	if err == nil {
		err = c.decode(content, into)
	}
	return err
}

func (c *client) decode(content []byte, into any) error {
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("--api %s: the answer is not the one of a hub: %w", c.api, err)
	}
	return nil
}

// do sends a request that changes something, and prints the result.
func (c *client) do(ctx context.Context, method, path string, body any, done string) error {
	_, err := c.send(ctx, method, path, body, nil)
	if err == nil {
		_, err = fmt.Fprintln(c.out, done)
	}
	return err
}

// show prints the answer of a path: what view returns for it. With --watch it prints each later answer
// too, until ctx ends: of tables only the rows that have changed.
func show[T any](ctx context.Context, c *client, path string, view func(T) (value any, tables []table.Table)) error {
	tag, shown := "", []table.Table(nil)
	for {
		at := path
		if c.watch {
			at += "?watch=" + watchTime.String()
		}
		content, err := c.send(ctx, http.MethodGet, at, nil, &tag)
		if c.watch && ctx.Err() != nil {
			return nil // Ctrl-C
		}
		var answer T
		if err == nil && content != nil {
			err = c.decode(content, &answer)
		}
		if err == nil && content != nil {
			value, tables := view(answer)
			err = c.print(value, func() error { return c.printTables(tables, shown) })
			shown = tables
		}
		if err != nil || !c.watch {
			return err
		}
	}
}

// print prints a value in the form of --output.
func (c *client) print(value any, text func() error) error {
	var content []byte
	var err error
	switch c.output.String() {
	case "json":
		content, err = json.MarshalIndent(value, "", "  ")
		content = append(content, '\n')
	case "yaml":
		if content, err = yaml.Marshal(value); c.watch {
			content = append([]byte("---\n"), content...)
		}
	default:
		return text()
	}
	if err == nil {
		_, err = c.out.Write(content)
	}
	return err
}

// printTables prints tables, or the changes since earlier ones. It prints no empty table but a single
// one.
func (c *client) printTables(tables, earlier []table.Table) error {
	before := ""
	for i, t := range tables {
		if earlier != nil {
			t = t.Since(earlier[i])
		}
		if len(t.Rows) == 0 && (len(tables) > 1 || earlier != nil) {
			continue
		}
		fmt.Fprint(c.out, before)
		if err := t.Write(c.out, c.output.String() == "wide", time.Now()); err != nil {
			return err
		}
		before = "\n"
	}
	return nil
}
