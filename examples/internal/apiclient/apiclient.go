// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiclient calls the HTTP API of a running program for its commands, and prints the answers
// as tables, JSON or YAML. It adds the flags for the URL, TLS, the bearer token and the output.
//
// An error of the API is {"error": "..."}. A GET with ?watch=DURATION returns an ETag, and with this
// ETag in If-None-Match it returns when the answer differs, or with the status 304 after that time.
package apiclient

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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/internal/commands"
	"github.com/spokewire/sdk-go/examples/internal/table"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// timeout limits a request, in addition to the time that it waits.
	timeout = time.Minute
	// watchTime is the time that a request waits for a change, and watchPause the time before the next.
	watchTime, watchPause = 50 * time.Second, 250 * time.Millisecond
	// maxAnswer is the maximum size of an answer.
	maxAnswer = 1 << 30
)

// options are flag names by the options of package tlsfiles.
var options = tlsfiles.OptionNames{"CAFile": "--api-ca", "CertFile": "--api-cert", "KeyFile": "--api-key"}

// Client has the values of the flags, and calls the API.
type Client struct {
	// Output is the form of the output, and Watch whether Show continues with all changes.
	Output *commands.Enum
	Watch  bool
	Out    io.Writer

	program, ownToken string
	api, tokenFile    string
	tls               tlsfiles.Client
	http              *http.Client // nil before the first call
	token             string
}

// New returns a client for a program, which writes the results to out. On its own machine the program
// writes a token to the file ownToken.
func New(program, ownToken string, out io.Writer) *Client {
	return &Client{
		Output: commands.NewEnum("table", "wide", "json", "yaml"), Out: out, program: program, ownToken: ownToken,
	}
}

// AddFlags adds the flags of the connection.
func (c *Client) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.api, "api", "http://localhost:8080", "the `URL` of the "+c.program+"'s page and API")
	flags.StringVar(&c.tokenFile, "token-file", "", "the bearer token in `FILE` (default "+c.ownToken+
		", if it exists and the "+c.program+" is on this machine)")
	flags.StringVar(&c.tls.CAFile, "api-ca", "", "the CAs of the API's certificate in `FILE` (default: the system's)")
	flags.StringVar(&c.tls.CertFile, "api-cert", "", "a client certificate in `FILE`, with --api-key")
	flags.StringVar(&c.tls.KeyFile, "api-key", "", "the key of the certificate in `FILE`")
}

// Reads adds --output to a command, and --watch.
func (c *Client) Reads(cmd *cobra.Command, watch bool) *cobra.Command {
	cmd.Flags().VarP(c.Output, "output", "o", "the form of the output")
	if watch {
		cmd.Flags().BoolVarP(&c.Watch, "watch", "w", false, "continue with all changes, until Ctrl-C")
	}
	return cmd
}

// connect checks the flags, once.
func (c *Client) connect() error {
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
		file = c.ownToken
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

// send sends a request with a body, which is JSON or text, or nil. It returns nil if the answer is
// the one with the tag.
func (c *Client) send(ctx context.Context, method, path string, body any, tag *string) ([]byte, error) {
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

// unreachable returns the error for a program that does not answer.
func (c *Client) unreachable(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // without method and URL
	}
	return fmt.Errorf("--api %s: %w: is a %s running with this --listen?", c.api, options.Error(err), c.program)
}

// refused returns the error for an answer without success.
func (c *Client) refused(response *http.Response, content []byte) error {
	var problem struct{ Error string }
	_ = json.Unmarshal(content, &problem)
	err := errors.New(table.Plain(cmp.Or(problem.Error, response.Status)))
	if problem.Error == "" {
		err = fmt.Errorf("--api %s: %w: is this a %s?", c.api, err, c.program)
	}
	if code := response.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden {
		used := "set --token-file to a file with a token of this " + c.program
		if c.tokenFile != "" {
			used = "--token-file " + c.tokenFile + " has no token with this right"
		}
		err = fmt.Errorf("--api %s: %w: %s", c.api, err, used)
	}
	return err
}

// Load decodes the answer of a request. Into a *[]byte it is not decoded.
func (c *Client) Load(ctx context.Context, method, path string, body, into any) error {
	content, err := c.send(ctx, method, path, body, nil)
	if raw, isRaw := into.(*[]byte); isRaw && err == nil {
		*raw = content
	} else if err == nil {
		err = c.decode(content, into)
	}
	return err
}

func (c *Client) decode(content []byte, into any) error {
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("--api %s: the answer is not the one of a %s: %w", c.api, c.program, err)
	}
	return nil
}

// Do sends a request that changes something, and prints the result.
func (c *Client) Do(ctx context.Context, method, path string, body any, done string) error {
	_, err := c.send(ctx, method, path, body, nil)
	if err == nil {
		_, err = fmt.Fprintln(c.Out, done)
	}
	return err
}

// Show prints the answer of a path: what view returns for it. With --watch it prints each later answer
// too, until ctx ends: of tables only the rows that have changed.
func Show[T any](ctx context.Context, c *Client, path string, view func(T) (value any, tables []table.Table)) error {
	tag, shown := "", []table.Table(nil)
	for {
		at := path
		if c.Watch {
			at += "?watch=" + watchTime.String()
		}
		content, err := c.send(ctx, http.MethodGet, at, nil, &tag)
		if c.Watch && ctx.Err() != nil {
			return nil // Ctrl-C
		}
		var answer T
		if err == nil && content != nil {
			err = c.decode(content, &answer)
		}
		if err == nil && content != nil {
			value, tables := view(answer)
			err = c.Print(value, func() error { return c.printTables(tables, shown) })
			shown = tables
		}
		if err != nil || !c.Watch || wait.Sleep(ctx, clock.RealClock{}, watchPause) != nil {
			return err
		}
	}
}

// Print prints a value in the form of --output.
func (c *Client) Print(value any, text func() error) error {
	var content []byte
	var err error
	switch c.Output.String() {
	case "json":
		content, err = json.MarshalIndent(value, "", "  ")
		content = append(content, '\n')
	case "yaml":
		if content, err = yaml.Marshal(value); c.Watch {
			content = append([]byte("---\n"), content...)
		}
	default:
		return text()
	}
	if err == nil {
		_, err = c.Out.Write(content)
	}
	return err
}

// printTables prints tables, or the changes since earlier ones. It prints no empty table but a single
// one.
func (c *Client) printTables(tables, earlier []table.Table) error {
	before := ""
	for i, t := range tables {
		if len(earlier) == len(tables) { // a table of outages comes and goes
			t = t.Since(earlier[i])
		}
		if len(t.Rows) == 0 && (len(tables) > 1 || earlier != nil) {
			continue
		}
		fmt.Fprint(c.Out, before)
		if err := t.Write(c.Out, c.Output.String() == "wide", time.Now()); err != nil {
			return err
		}
		before = "\n"
	}
	return nil
}
