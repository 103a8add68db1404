// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

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
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

const tokenUsage = `Usage: hub token create --cluster NAME [flags]
       hub token list [flags]
       hub token delete ID [flags]
       hub revoke NAME [flags]

Creates, lists or deletes tokens that let agents join, or revokes the certificates of a cluster: its
connections end, and it needs a new token. The commands call the API of a hub that runs with
--join-listen. Only create prints the secret of a token.

  --cluster NAME  the cluster that may join with the token
  --lifetime D    how long the token is valid (default 1h, at most 720h)
  --uses N        how many agents may join with the token (default 1)
  --api URL       the address of the hub's --listen (default http://127.0.0.1:8080)
  --token-file FILE
                  a file with a token of an editor (default hub-data/admin.token)
  --help          show this help
`

// tokenOptions are a call of the API.
type tokenOptions struct {
	api    string
	secret string // the file of the token
	method string
	path   string
	body   any
	print  func(w io.Writer, content []byte) error
}

func token(_ context.Context, args []string, stdout, stderr io.Writer) int {
	return callAPI("hub token", parseToken, args, stdout, stderr)
}

func revoke(_ context.Context, args []string, stdout, stderr io.Writer) int {
	return callAPI("hub revoke", parseRevoke, args, stdout, stderr)
}

func callAPI(
	name string, parse func([]string) (tokenOptions, error), args []string, stdout, stderr io.Writer,
) int {
	p := command.Program[tokenOptions]{Name: name, Usage: tokenUsage, Parse: parse}
	return p.Run(args, stdout, stderr, func(o tokenOptions) error {
		content, err := o.call()
		if err != nil {
			return err
		}
		return o.print(stdout, content)
	})
}

// parseToken reads a verb and its flags.
func parseToken(args []string) (o tokenOptions, err error) {
	verb := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	flags := o.flags("hub token")
	body := httpapi.TokenRequest{}
	flags.StringVar(&body.Cluster, "cluster", "", "")
	flags.StringVar(&body.Lifetime, "lifetime", "", "")
	flags.IntVar(&body.Uses, "uses", 1, "")
	o.path = "/api/v1/tokens"
	switch verb {
	case "create":
		err = flags.Parse(args)
		if err == nil && body.Cluster == "" {
			err = errors.New("--cluster is required: the cluster that may join with the token")
		}
		o.method, o.body, o.print = http.MethodPost, body, printToken
	case "list":
		err = flags.Parse(args)
		o.method, o.print = http.MethodGet, printTokens
	case "delete":
		var id string
		id, err = flags.one(args, "the ID of a token")
		o.method, o.path = http.MethodDelete, o.path+"/"+url.PathEscape(id)
		o.print = printed("deleted  " + id)
	default:
		if err = flags.Parse(args); err == nil {
			err = errors.New("must be hub token create, list or delete")
		}
	}
	return o, err
}

func parseRevoke(args []string) (o tokenOptions, err error) {
	cluster, err := o.flags("hub revoke").one(args, "the name of a cluster")
	o.method, o.path = http.MethodPost, "/api/v1/clusters/"+url.PathEscape(cluster)+"/revoke"
	o.print = printed("revoked  " + cluster)
	return o, err
}

// apiFlags are the flags of commands that call the API.
type apiFlags struct{ command.Flags }

func (o *tokenOptions) flags(name string) apiFlags {
	flags := apiFlags{command.NewFlags(name)}
	flags.StringVar(&o.api, "api", "http://127.0.0.1:8080", "")
	flags.StringVar(&o.secret, "token-file", filepath.Join("hub-data", "admin.token"), "")
	return flags
}

// one reads one argument, with flags before or after it.
func (f apiFlags) one(args []string, what string) (string, error) {
	if err := f.ParseFlags(args); err != nil {
		return "", err
	}
	value := f.Arg(0)
	if value == "" {
		return "", errors.New("an argument is missing: " + what)
	}
	return value, f.Parse(f.Args()[1:])
}

// call sends the request.
func (o tokenOptions) call() ([]byte, error) {
	body, err := json.Marshal(o.body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, o.method, strings.TrimSuffix(o.api, "/")+o.path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("--api: %w", err)
	}
	if secret, err := os.ReadFile(o.secret); err == nil {
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("--api: %w: is a hub running with this --listen?", err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("--api: %w", err)
	}
	if response.StatusCode/100 != 2 {
		var problem struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(content, &problem)
		return nil, errors.New(cmp.Or(problem.Error, response.Status))
	}
	return content, nil
}

func printed(line string) func(io.Writer, []byte) error {
	return func(w io.Writer, _ []byte) error {
		_, err := fmt.Fprintln(w, line)
		return err
	}
}

func printToken(w io.Writer, content []byte) error {
	var t httpapi.Token
	if err := json.Unmarshal(content, &t); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n\nOn the cluster, before %s:\n\n  agent join --hub %s --token %s\n",
		t.Token, t.Expires.UTC().Format(time.RFC3339), t.URL, t.Token)
	return err
}

func printTokens(w io.Writer, content []byte) error {
	var all []httpapi.Token
	if err := json.Unmarshal(content, &all); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tCLUSTER\tUSES\tEXPIRES")
	for _, t := range all {
		expires := t.Expires.UTC().Format(time.RFC3339)
		if !time.Now().Before(t.Expires) {
			expires += " (expired)"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", t.ID, t.Cluster, t.Uses, expires)
	}
	return table.Flush()
}
